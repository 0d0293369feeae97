package control

import (
	"bytes"
	"testing"
	"time"
)

// BackupOf is a backup that has one part of that name, and is whole.
func BackupOf(t *testing.T, name string) []byte {
	t.Helper()
	var out bytes.Buffer
	b, err := newBackup(&out, BackupHead{backupFormat + backupLayout, time.Unix(1, 0).UTC(), "test"})
	if err == nil {
		err = b.part(name, []byte("x"))
	}
	if err == nil {
		err = b.end()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
