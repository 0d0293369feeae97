package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"headway/core"
)

const (
	socketName = "headway.sock"
	// longestSocket is what the address of a Unix socket may have in bytes
	// wherever Headway runs.
	longestSocket = 103
	// shortPrefix begins the names of folders that hold a socket whose own place
	// has too long a path.
	shortPrefix = "headway-"
)

// Listen opens the data folder's socket, which needs no token: whoever may enter
// the folder is the operator (mode 0600, in a folder of mode 0700). A socket that
// an earlier process left is replaced, so the caller must hold the folder's lock.
// Where the folder's path is too long for a socket, the file holds the path of a
// short one.
func Listen(dataDir string) (net.Listener, error) {
	name, err := filepath.Abs(filepath.Join(dataDir, socketName))
	if err != nil {
		return nil, socketError(name, err)
	}
	if err := dropSocket(name); err != nil {
		return nil, socketError(name, err)
	}
	if len(name) <= longestSocket {
		l, err := listenAt(name)
		return l, socketError(name, err)
	}
	dir, err := os.MkdirTemp(shortFolder(), shortPrefix)
	if err != nil {
		return nil, socketError(name, err)
	}
	short := filepath.Join(dir, "s")
	l, err := listenAt(short)
	if err == nil {
		err = os.WriteFile(name, []byte(short+"\n"), 0o600)
	}
	if err != nil {
		if l != nil {
			_ = l.Close()
		}
		return nil, socketError(name, errors.Join(err, os.RemoveAll(dir)))
	}
	return &shortSocket{l, name, dir}, nil
}

// shortFolder is where short sockets go: the usual place for temporary files,
// unless that is deep itself.
func shortFolder() string {
	if dir := os.TempDir(); len(dir) < 60 {
		return dir
	}
	return "/tmp"
}

func listenAt(name string) (net.Listener, error) {
	l, err := net.Listen("unix", name)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// dropSocket removes what an earlier process left under the socket's name.
func dropSocket(name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().IsRegular():
		if short, err := readShort(name); err == nil && strings.HasPrefix(filepath.Base(filepath.Dir(short)), shortPrefix) {
			_ = os.Remove(short)
			_ = os.Remove(filepath.Dir(short)) // only where it is empty
		}
	case info.Mode()&os.ModeSocket == 0:
		return errors.New("something that is not a socket has its name")
	}
	return os.Remove(name)
}

// readShort reads the path of a short socket.
func readShort(name string) (string, error) {
	text, err := os.ReadFile(name)
	short := strings.TrimSpace(string(text))
	if err == nil && (!filepath.IsAbs(short) || len(short) > longestSocket) {
		err = errors.New("it does not name a socket")
	}
	return short, err
}

// shortSocket takes its folder and the file that names it along when it closes.
type shortSocket struct {
	net.Listener
	name, dir string
}

func (s *shortSocket) Close() error {
	return errors.Join(s.Listener.Close(), os.Remove(s.name), os.RemoveAll(s.dir))
}

// socketPath is where to dial for a data folder.
func socketPath(dataDir string) (string, error) {
	name, err := filepath.Abs(filepath.Join(dataDir, socketName))
	if err != nil {
		return "", err
	}
	info, err := os.Lstat(name)
	if err != nil {
		return "", err
	}
	if info.Mode().IsRegular() {
		return readShort(name)
	}
	return name, nil
}

func socketError(name string, err error) error {
	if err == nil {
		return nil
	}
	return &core.Error{Kind: core.Internal, Msg: fmt.Sprintf("%s: the socket for commands cannot be opened: %v", name, err),
		Hint: "see that the data folder can be written", Err: err}
}
