package control

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"headway/core"
	"headway/core/seal"
)

// A backup is a tar file, so that what is in it can be looked at without Headway:
//
//	headway-backup.json   BackupHead
//	log/MONTH             the newest checkpoint of each signed log; empty: none is known
//	pepper, admin-token   the secrets of the data folder, as far as they are there
//	nats/…                the CA of the nodes
//	store/00000001 …      the chunks of the store, in their order
//	SHA256SUMS            the SHA-256 of each of these, as sha256sum writes them
//	END                   the SHA-256 of all bytes before this part
//
// The checkpoints are read before the store is: what they are over is in it then. The
// sums are for people; END is what a reader goes by, as no byte of the file is without
// it: whatever is changed or cut off is told.
const (
	backupFormat = "headway backup "
	backupLayout = "1"

	backupHead  = "headway-backup.json"
	backupSums  = "SHA256SUMS"
	backupEnd   = "END"
	backupLogs  = "log/"
	backupStore = "store/"

	// longestPart bounds a part other than a chunk, longestChunk a chunk, in bytes.
	longestPart  = 16 << 20
	longestChunk = 4 << 20
)

// BackupFiles are the files of the data folder that a backup has beside the store and
// the checkpoints; one that ends with a slash is a folder with files.
func BackupFiles() []string { return []string{"pepper", "admin-token", "nats/"} }

// BackupHead says what a backup is.
type BackupHead struct {
	Format  string    `json:"format"` // "headway backup 1"
	Made    time.Time `json:"made"`   // UTC
	Version string    `json:"version"`
}

// backupTail is how long the end of a backup is: END's header and content, and two
// empty blocks.
const backupTail = 512 + 512 + 1024

// backupWriter writes one. What it is given is not read again.
type backupWriter struct {
	out   io.Writer
	whole hash.Hash // of what was written
	tar   *tar.Writer
	made  time.Time
	sums  bytes.Buffer
}

func newBackup(out io.Writer, head BackupHead) (*backupWriter, error) {
	b := &backupWriter{out: out, whole: sha256.New(), made: head.Made.Truncate(time.Second)}
	b.tar = tar.NewWriter(io.MultiWriter(out, b.whole))
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	return b, b.part(backupHead, append(text, '\n'))
}

func (b *backupWriter) part(name string, content []byte) error {
	if err := b.tar.WriteHeader(partHeader(name, len(content), b.made)); err != nil {
		return err
	}
	_, err := b.tar.Write(content)
	fmt.Fprintf(&b.sums, "%x  %s\n", sha256.Sum256(content), name)
	return err
}

func partHeader(name string, size int, made time.Time) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(size), Mode: 0o600, ModTime: made, Format: tar.FormatUSTAR}
}

// end writes what makes it whole.
func (b *backupWriter) end() error {
	if err := b.part(backupSums, b.sums.Bytes()); err != nil {
		return err
	}
	if err := b.tar.Flush(); err != nil {
		return err
	}
	_, err := b.out.Write(tailOf(b.whole.Sum(nil)))
	return err
}

// tailOf is the end of a backup, of all before it having that sum.
func tailOf(sum []byte) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	text := hex.EncodeToString(sum) + "\n"
	_ = w.WriteHeader(partHeader(backupEnd, len(text), time.Unix(0, 0))) // into memory, of a usual name: cannot fail
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return out.Bytes()
}

// Backup is one that was found whole.
type Backup struct {
	BackupHead
	file io.ReaderAt
	size int64
}

// OpenBackup reads all of a backup and holds it against its sums; progress, where not
// nil, is told how many bytes were read. Invalid: it is none, of another version, cut
// short, or changed.
func OpenBackup(ctx context.Context, file io.ReaderAt, size int64, progress func(read int64)) (*Backup, error) {
	b := &Backup{file: file, size: size}
	none := &core.Error{Kind: core.Invalid, Msg: "is not a backup of headway", Hint: "headway backup writes one"}
	t := tar.NewReader(io.NewSectionReader(file, 0, size))
	h, err := t.Next()
	if err != nil || h.Name != backupHead || h.Size > longestPart {
		return nil, none
	}
	text, err := io.ReadAll(t)
	if err != nil || json.Unmarshal(text, &b.BackupHead) != nil || !strings.HasPrefix(b.Format, backupFormat) {
		return nil, none
	}
	if v := strings.TrimPrefix(b.Format, backupFormat); v != backupLayout {
		return nil, &core.Error{Kind: core.Invalid, Msg: fmt.Sprintf("is of backup version %.20q, and this headway knows %s", v, backupLayout), Hint: "use the headway that wrote it, or a newer one"}
	}
	damaged := func(how string) error {
		return &core.Error{Kind: core.Invalid, Msg: how, Hint: "take another backup: nothing of this one can be relied on"}
	}
	var tail [backupTail]byte
	if size < backupTail {
		return nil, damaged("is cut short")
	}
	whole := sha256.New()
	in := &counted{ctx: ctx, r: io.NewSectionReader(file, 0, size-backupTail), progress: progress}
	if _, err := io.Copy(whole, in); err != nil {
		return nil, err
	}
	if _, err := file.ReadAt(tail[:], size-backupTail); err != nil {
		return nil, err
	}
	if want := tailOf(whole.Sum(nil)); !bytes.Equal(want, tail[:]) {
		if !bytes.Equal(want[:100], tail[:100]) { // the name and what follows it up to the sizes
			return nil, damaged("is cut short, or its end is damaged")
		}
		return nil, damaged("is damaged" + b.badPart())
	}
	return b, nil
}

// Size is that of its file, in bytes.
func (b *Backup) Size() int64 { return b.size }

// counted reads along, and ends with its context.
type counted struct {
	ctx      context.Context
	r        io.Reader
	progress func(read int64)
	n        int64
}

// Read reads on.
func (c *counted) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.progress != nil {
		c.progress(c.n)
	}
	return n, err
}

// badPart names the first part that is not what its sum says, as far as the sums can
// be read themselves.
func (b *Backup) badPart() string {
	are := map[string]string{}
	var names []string
	sums := ""
	_ = b.each(func(name string, content []byte) error {
		if name == backupSums {
			sums = string(content)
			return nil
		}
		names, are[name] = append(names, name), fmt.Sprintf("%x", sha256.Sum256(content))
		return nil
	})
	for _, name := range names {
		if !strings.Contains(sums, are[name]+"  "+name+"\n") {
			return fmt.Sprintf(": its part %.60q is not what was backed up", name)
		}
	}
	return ""
}

// each reads the parts one after the other, up to the end.
func (b *Backup) each(take func(name string, content []byte) error) error {
	t := tar.NewReader(io.NewSectionReader(b.file, 0, b.size))
	for {
		h, err := t.Next()
		if err != nil {
			return &core.Error{Kind: core.Invalid, Msg: "is damaged", Err: err}
		}
		if h.Name == backupEnd {
			return nil
		}
		if h.Typeflag != tar.TypeReg || h.Size > longestPart {
			return core.Errorf(core.Invalid, "has a part %.60q that no backup has", h.Name)
		}
		content, err := io.ReadAll(t)
		if err == nil {
			err = take(h.Name, content)
		}
		if err != nil {
			return err
		}
	}
}

// Files gives the files of the data folder, by their slash-separated paths in it. A path
// that no backup has is refused (Invalid).
func (b *Backup) Files(take func(name string, content []byte) error) error {
	return b.beside(func(name string, content []byte) error {
		if strings.HasPrefix(name, backupLogs) {
			return nil
		}
		dir, base := path.Split(name)
		if !slices.Contains(BackupFiles(), name) && (dir == "" || !slices.Contains(BackupFiles(), dir)) || !plainName(base) {
			return core.Errorf(core.Invalid, "has a part %.60q that no backup has", name)
		}
		return take(name, content)
	})
}

func plainName(name string) bool {
	return name != "" && name[0] != '.' && !strings.ContainsAny(name, "/\\\x00")
}

// Checkpoints gives the newest checkpoint of each log, nothing of one that has none.
func (b *Backup) Checkpoints(take func(m seal.Month, note []byte) error) error {
	return b.beside(func(name string, content []byte) error {
		if m, found := strings.CutPrefix(name, backupLogs); found {
			return take(seal.Month(m), content)
		}
		return nil
	})
}

// beside gives what there is beside the store, which comes last.
func (b *Backup) beside(take func(name string, content []byte) error) error {
	over := errors.New("the store begins")
	err := b.each(func(name string, content []byte) error {
		switch {
		case name == backupHead:
			return nil
		case name == backupSums || strings.HasPrefix(name, backupStore):
			return over
		}
		return take(name, content)
	})
	if errors.Is(err, over) {
		return nil
	}
	return err
}

// Chunks gives the chunks of the store, one at each call, then nil. progress, where not
// nil, is told how many bytes of the backup were read.
func (b *Backup) Chunks(ctx context.Context, progress func(read int64)) (next func() ([]byte, error)) {
	in := &counted{ctx: ctx, r: io.NewSectionReader(b.file, 0, b.size), progress: progress}
	t := tar.NewReader(in)
	return func() ([]byte, error) {
		for {
			h, err := t.Next()
			if err != nil {
				if e := ctx.Err(); e != nil {
					return nil, e
				}
				return nil, &core.Error{Kind: core.Invalid, Msg: "is damaged", Err: err}
			}
			if h.Name == backupEnd {
				return nil, nil
			}
			if !strings.HasPrefix(h.Name, backupStore) {
				continue
			}
			if h.Size > longestChunk {
				return nil, core.Errorf(core.Invalid, "has a part %.60q that no backup has", h.Name)
			}
			return io.ReadAll(t)
		}
	}
}

// getBackup streams a backup. What is in it goes beyond what an admin may see: whoever
// has it can be this server. So it is for those alone who may enter the data folder.
func (d *Desk) getBackup(r *http.Request) (any, error) {
	if whoOf(r) != whoSocket {
		return nil, &core.Error{Kind: core.Forbidden, Msg: "a backup has the secrets of the server, and is made on its machine alone",
			Hint: "run headway backup there, with --data where it does not find the data folder"}
	}
	if d.Store == nil || d.Data == "" {
		return nil, core.Errorf(core.NotFound, "this server makes no backups")
	}
	return streamed{"application/x-tar", func(w io.Writer) error { return d.backup(r.Context(), w) }}, nil
}

func (d *Desk) backup(ctx context.Context, w io.Writer) error {
	now := d.Clock()
	b, err := newBackup(w, BackupHead{backupFormat + backupLayout, now.UTC(), d.Version})
	if err != nil {
		return err
	}
	if err := d.backupLogs(b); err != nil {
		return err
	}
	for _, name := range BackupFiles() {
		if err := d.backupFile(b, name); err != nil {
			return err
		}
	}
	n := 0
	err = d.Store.Copy(ctx, func(chunk []byte) error {
		n++
		return b.part(fmt.Sprintf("%s%08d", backupStore, n), chunk)
	})
	if err != nil {
		return err
	}
	return b.end()
}

// backupLogs adds the newest checkpoint of each log, also of those that the store knows
// nothing of: a restored server must not sign under their names.
func (d *Desk) backupLogs(b *backupWriter) error {
	if d.Receipts == nil {
		return nil
	}
	months, err := d.Receipts.Months()
	if err != nil {
		return err
	}
	names, err := os.ReadDir(filepath.Join(d.Data, "log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return dataError(err)
	}
	for _, n := range names {
		ext := filepath.Ext(n.Name())
		if m := seal.Month(strings.TrimSuffix(n.Name(), ext)); ext == ".checkpoint" || ext == ".restored" {
			months = append(months, m)
		}
	}
	slices.Sort(months)
	for _, m := range slices.Compact(months) {
		var note []byte
		c, err := d.Receipts.Checkpoint(m)
		switch {
		case err == nil:
			note = c.Note
		case !isKind(err, core.NotFound):
			d.Log.Warn("backup: the checkpoint of a log cannot be read, and is left out", "log", string(m), "error", err)
		}
		if err := b.part(backupLogs+string(m), note); err != nil {
			return err
		}
	}
	return nil
}

// backupFile adds a file of the data folder, or those of a folder in it, if they are
// there.
func (d *Desk) backupFile(b *backupWriter, name string) error {
	full := filepath.Join(d.Data, filepath.FromSlash(name))
	if strings.HasSuffix(name, "/") {
		entries, err := os.ReadDir(full)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return dataError(err)
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || !plainName(e.Name()) || strings.HasSuffix(e.Name(), ".new") {
				continue
			}
			if err := d.backupFile(b, name+e.Name()); err != nil {
				return err
			}
		}
		return nil
	}
	content, err := os.ReadFile(full)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return dataError(err)
	}
	return b.part(name, content)
}

func dataError(err error) error {
	return &core.Error{Kind: core.Unavailable, Msg: "a file of the data folder cannot be read", Hint: "see who owns it and what its mode is", Err: err}
}

// Backup writes a backup of the server to w.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	return c.copy(ctx, "backup", nil, w)
}
