package campaign

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Vectors holds the signature check against the provider's own library.
var Vectors = Campaign{
	Name:  "vectors",
	About: "the published vector, valid and mutated deliveries, judged as the provider's own library judges them",
	Units: func(bool) []Unit { return []Unit{{Name: "stripe", Run: vectors}} },
}

// vectorModule is the module with the independent verifier, which is no
// dependency of the program, and vectorTests its package.
const (
	vectorModule = "internal/sdktest"
	vectorTests  = "./stripe"
)

func vectors(ctx context.Context, e *Env) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", vectorTests)
	cmd.Dir = filepath.Join(e.Root, vectorModule)
	cmd.Env = append(os.Environ(), fmt.Sprintf("UNAVEZ_SEED=%d", e.Seed))
	if e.Full {
		cmd.Env = append(cmd.Env, "UNAVEZ_PROVE=1")
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	var said []string
	for line := range bytes.Lines(out) {
		text := strings.TrimSpace(string(line))
		if at, rest, ok := strings.Cut(text, ".go:"); ok && !strings.Contains(at, " ") {
			if _, rest, _ = strings.Cut(rest, ": "); !strings.HasPrefix(rest, "seed ") {
				said = append(said, rest)
			}
		}
	}
	return strings.Join(said, "; "), nil
}
