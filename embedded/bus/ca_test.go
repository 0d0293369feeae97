package bus

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCertificate: the server's certificate is made anew before it ends, and is always
// one that a stock client would take too.
func TestCertificate(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a, err := openCA(t.TempDir(), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	var last []byte
	var made int
	for range 3 * 365 {
		c, err := a.certificate()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(c.Certificate[0], last) {
			last = c.Certificate[0]
			made++
		}
		if _, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: serverName, Roots: roots, CurrentTime: now}); err != nil {
			t.Fatal(now, err)
		}
		if left := c.Leaf.NotAfter.Sub(now); left < leafLeft {
			t.Fatal(left)
		}
		now = now.Add(24 * time.Hour)
	}
	if made != 4 {
		t.Errorf("%d certificates in three years", made)
	}
	now = time.Unix(0, 0) // a machine that lost its clock
	if c, err := a.certificate(); err != nil || verify(a.pin(), []*x509.Certificate{c.Leaf, a.cert}) != nil {
		t.Error(err)
	}
}

// TestCAFile: it is made once, and not where a write that was cut off lies.
func TestCAFile(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "nats")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, caFile+".new"), []byte("half of a CA"), 0o644); err != nil {
		t.Fatal(err)
	}
	one, err := openCA(folder, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	two, err := openCA(folder, time.Now)
	if err != nil || one.pin() != two.pin() || len(one.pin()) != 64 {
		t.Error(one.pin(), err)
	}
	if info, _ := os.Stat(folder); info.Mode().Perm() != 0o700 {
		t.Error(info.Mode())
	}
}
