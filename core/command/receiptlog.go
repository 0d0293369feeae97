package command

import (
	"crypto/rand"
	"log/slog"
	"path/filepath"
	"strings"

	"headway/conf"
	"headway/core"
	"headway/core/ledger"
	"headway/core/seal"
)

// Where the name of an edge is kept, once it has one.
const (
	vaultEdge     = "edge"
	vaultEdgeName = "name"
)

// OpenReceiptLog opens the signed log of receipts of a data folder (SPEC §11): its
// checkpoints are in DATA/log, its keys and secrets sealed in the vault. The edge is
// called headway.local/ and eight letters and digits, made once. A log that is short
// or damaged is no error: where receipts are optional another is begun, which says so,
// else nothing is signed until somebody says that another is to be.
func OpenReceiptLog(f *conf.File, vault core.Vault, book core.Book, pepper *ledger.Pepper, clock core.Clock, log *slog.Logger) (*seal.Sealer, error) {
	name, err := vault.Get(vaultEdge, vaultEdgeName)
	if err != nil {
		return nil, err
	}
	if name == nil {
		name = []byte("headway.local/" + strings.ToLower(rand.Text()[:8]))
		if err := vault.Put(vaultEdge, vaultEdgeName, name); err != nil {
			return nil, err
		}
	}
	return seal.Open(seal.Parts{Clock: clock, Log: log, Vault: vault, Secrets: pepper.Sealer(), Dir: filepath.Join(f.Data, "log"), Edge: string(name),
		Hold: f.Settings.Receipts != core.ReceiptsOptional, Book: book})
}

// OpenWitness makes the worker that shows the log's checkpoints to the witness of the
// file; nil, nil: it names none.
func OpenWitness(f *conf.File, sealer *seal.Sealer, log *slog.Logger) (*seal.Witness, error) {
	if f.Witness.URL == "" {
		return nil, nil
	}
	return seal.NewWitness(seal.WitnessParts{Sealer: sealer, URL: f.Witness.URL, Key: f.Witness.Key, Log: log})
}
