package bus

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"time"

	"headway/core"
)

const (
	caFile = "ca.pem" // in Options.Folder: the key and the certificate, one file so that one write makes both
	// serverName is what the edge's certificate is made out to, whatever its address.
	serverName = "headway-edge"

	caLife   = 100 * 365 * 24 * time.Hour // nodes know the edge by it: it is never replaced
	leafLife = 365 * 24 * time.Hour
	leafLeft = 30 * 24 * time.Hour // with less it is made anew
	// earlier is how far certificates reach into the past, for nodes of other makers
	// that look at their own clock. Ours does not: no time of one machine is compared
	// with another's.
	earlier = 24 * time.Hour
)

// authority is the edge's own CA: nodes know the edge by its certificate. The
// server's certificate and its key are made at each start and never leave memory.
type authority struct {
	clock core.Clock
	key   *ecdsa.PrivateKey
	cert  *x509.Certificate

	mu   sync.Mutex
	leaf *tls.Certificate
}

// openCA reads the CA of a folder, or makes one where there is none.
func openCA(folder string, clock core.Clock) (*authority, error) {
	name := filepath.Join(folder, caFile)
	text, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if text, err = newCA(clock); err != nil {
			return nil, &core.Error{Kind: core.Internal, Msg: "a CA cannot be made", Err: err}
		}
		if err := writeFile(folder, caFile, text); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fileError(name, "read", err)
	}
	a := &authority{clock: clock}
	if a.key, a.cert, err = parseCA(text); err != nil {
		return nil, &core.Error{Kind: core.Internal, Msg: name + " is damaged: " + err.Error(),
			Hint: "restore it from a backup of the data folder; without it every node must be enrolled again: remove the file, and a new one is made"}
	}
	return a, nil
}

func newCA(clock core.Clock) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := clock().UTC().Truncate(time.Second)
	like := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "headway edge CA"},
		NotBefore: now.Add(-earlier), NotAfter: now.Add(caLife),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, like, like, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = errors.Join(pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.Encode(&out, &pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
	return out.Bytes(), err
}

// parseCA reads what newCA wrote; the errors say nothing of the key.
func parseCA(text []byte) (*ecdsa.PrivateKey, *x509.Certificate, error) {
	first, rest := pem.Decode(text)
	if first == nil || first.Type != "CERTIFICATE" {
		return nil, nil, errors.New("it does not begin with a certificate")
	}
	second, rest := pem.Decode(rest)
	if second == nil || second.Type != "PRIVATE KEY" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, nil, errors.New("it does not end with a private key")
	}
	cert, err := x509.ParseCertificate(first.Bytes)
	if err != nil || !cert.IsCA {
		return nil, nil, errors.New("its certificate is not of a CA")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(second.Bytes)
	if err != nil {
		return nil, nil, errors.New("its key cannot be read")
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, nil, errors.New("its key is not the certificate's")
	}
	return key, cert, nil
}

func (a *authority) pin() string { return pinOf(a.cert.Raw) }

func pinOf(cert []byte) string {
	sum := sha256.Sum256(cert)
	return hex.EncodeToString(sum[:])
}

// serverConfig is the listener's.
func (a *authority) serverConfig() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true, // a node dials once for each session
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.certificate() },
	}
}

// certificate is the server's, made anew when it nears its end.
func (a *authority) certificate() (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock().UTC().Truncate(time.Second)
	if a.leaf != nil && now.Add(leafLeft).Before(a.leaf.Leaf.NotAfter) && now.After(a.leaf.Leaf.NotBefore) {
		return a.leaf, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	from, to := now.Add(-earlier), now.Add(leafLife)
	if from.Before(a.cert.NotBefore) {
		from = a.cert.NotBefore
	}
	if !to.After(from) { // this machine's clock is behind the one that made the CA
		to = from.Add(leafLife)
	}
	if to.After(a.cert.NotAfter) {
		to = a.cert.NotAfter
	}
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: serverName}, DNSNames: []string{serverName},
		NotBefore: from, NotAfter: to,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, err
	}
	// The CA's certificate goes along: a node knows its hash alone.
	a.leaf = &tls.Certificate{Certificate: [][]byte{raw, a.cert.Raw}, PrivateKey: key, Leaf: leaf}
	return a.leaf, nil
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}

// errPin says that a server is not the edge that the join string is of.
var errPin = errors.New("the server has another CA")

// clientConfig is a node's: it takes a server whose chain ends in the certificate with
// the pin, for serverName. The times in certificates are not looked at: a machine
// without a clock of its own must be able to come, and whom the CA's key has signed
// the edge is.
func clientConfig(pin string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: serverName,
		InsecureSkipVerify: true, // VerifyConnection does it: there is no root but the pin
		VerifyConnection:   func(state tls.ConnectionState) error { return verify(pin, state.PeerCertificates) },
	}
}

func verify(pin string, chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return errPin
	}
	roots, between, found := x509.NewCertPool(), x509.NewCertPool(), false
	for _, c := range chain[1:] {
		if pinOf(c.Raw) == pin && c.IsCA {
			roots.AddCert(c)
			found = true
		} else {
			between.AddCert(c)
		}
	}
	if !found {
		return errPin
	}
	_, err := chain[0].Verify(x509.VerifyOptions{DNSName: serverName, Roots: roots, Intermediates: between,
		CurrentTime: chain[0].NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if err != nil {
		return errors.Join(errPin, err)
	}
	return nil
}

// writeFile writes a file of a private folder, whole or not at all, durably.
func writeFile(folder, name string, text []byte) error {
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fileError(folder, "made", err)
	}
	if err := os.Chmod(folder, 0o700); err != nil {
		return fileError(folder, "made private", err)
	}
	_ = os.Remove(path + ".new") // of a start that was cut off: its mode is not known
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fileError(path, "written", err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fileError(path, "written", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fileError(path, "written", err)
	}
	dir, err := os.Open(folder)
	if err != nil {
		return fileError(folder, "opened", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fileError(path, "made durable", err)
	}
	return nil
}

func fileError(name, what string, err error) error {
	return &core.Error{Kind: core.Unavailable, Msg: name + " cannot be " + what, Hint: "see who owns it and what its mode is", Err: err}
}
