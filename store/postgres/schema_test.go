package postgres_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// frozen are the migrations by their checksum. A ledger that has applied one
// would not notice that its text has changed: from the first release on, a
// change is a migration of its own, and a line is only ever added here.
var frozen = map[string]string{
	"0001_ledger.sql": "8e833e823dffd149895dc2f10712bca141582ff5f85141b74bf79ccd2ea5d508",
}

func TestMigrationsAreFrozen(t *testing.T) {
	files, err := filepath.Glob("migration/*")
	if err != nil || len(files) != len(frozen) {
		t.Fatalf("%d migrations, %d checksums, %v", len(files), len(frozen), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		if got, want := hex.EncodeToString(sum[:]), frozen[filepath.Base(file)]; got != want {
			t.Errorf("%s is %s, not %s", file, got, want)
		}
	}
}
