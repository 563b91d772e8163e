package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/sqlite"
)

// limitFile names the ledger that the child process writes to, under a limit of
// the size of files that the kernel enforces: a real failure to write.
const limitFile = "UNAVEZ_SQLITE_LIMIT"

const (
	limitWarm = 20
	// limitRoom is what the child may write beyond what is there, in bytes.
	limitRoom = 300 << 10
	limitBody = 8 << 10
	limitMax  = 10_000
)

var limitAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func limitMain() {
	path := os.Getenv(limitFile)
	if path == "" {
		return
	}
	if err := limitChild(context.Background(), path); err != nil {
		fmt.Println("child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// limitChild writes until the kernel refuses, and then again without the limit.
func limitChild(ctx context.Context, path string) error {
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	if _, err := s.MigrateUp(ctx); err != nil {
		return err
	}
	for i := range limitWarm {
		if err := limitWrite(ctx, s, i); err != nil {
			return fmt.Errorf("before the limit: %w", err)
		}
		fmt.Println("acknowledged", i)
	}
	info, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	// The kernel kills who ignores neither the signal nor the error.
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	limited := limit
	limited.Cur = uint64(info.Size()) + limitRoom
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limited); err != nil {
		return err
	}
	refused := -1
	for i := limitWarm; i < limitMax; i++ {
		err := limitWrite(ctx, s, i)
		if err == nil {
			fmt.Println("acknowledged", i)
			continue
		}
		if !errors.Is(err, store.ErrCommitUnknown) && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrFull) {
			return fmt.Errorf("the refusal is %w", err)
		}
		refused = i
		break
	}
	if refused < 0 || s.Epoch() == 0 {
		return fmt.Errorf("refused %d, epoch %d", refused, s.Epoch())
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if err := limitWrite(ctx, s, refused); err != nil {
		return fmt.Errorf("after the limit: %w", err)
	}
	fmt.Println("acknowledged", refused)
	return s.Close()
}

func limitWrite(ctx context.Context, s store.Store, i int) error {
	// Bytes that do not compress.
	body := make([]byte, limitBody)
	for at := range body {
		body[at] = byte(at*at*7 + i*31 + at>>3)
	}
	id := fmt.Sprintf("evt_%05d", i)
	return s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		_, err := tx.InsertEntries(ctx, []store.EntryWithBody{{
			Entry: store.Entry{ID: id, Scope: store.Scope{Account: "acc", Mode: "live"}, Identity: id, ReceivedAt: limitAt},
			Body:  store.Body{Bytes: body},
		}})
		return err
	})
}

// R1.7: what the disk refused is not acknowledged, and what was acknowledged is there.
func TestDiskRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^$")
	cmd.Env = append(os.Environ(), limitFile+"="+path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := openAt(t, path, sqlite.Options{})
	acknowledged := 0
	for line := range bytes.Lines(out) {
		var i int
		if _, err := fmt.Sscanf(string(line), "acknowledged %d", &i); err != nil {
			t.Fatalf("the child said %q", line)
		}
		acknowledged++
		err := s.View(t.Context(), func(r store.Reader) error {
			b, err := r.Body(t.Context(), fmt.Sprintf("evt_%05d", i))
			if err == nil && len(b.Bytes) != limitBody {
				err = errors.New("short")
			}
			return err
		})
		if err != nil {
			t.Errorf("entry %d: %v", i, err)
		}
	}
	if acknowledged <= limitWarm {
		t.Errorf("%d acknowledged:\n%s", acknowledged, strings.TrimSpace(string(out)))
	}
}
