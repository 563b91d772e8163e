package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/unavez/unavez/internal/config"
)

type file struct {
	Listen struct {
		Ingress string `yaml:"ingress"`
	} `yaml:"listen"`
	Wait  time.Duration `yaml:"wait"`
	Items []struct {
		Name    string   `yaml:"name"`
		Secrets []string `yaml:"secrets"`
		Secret  string   `yaml:"secret"`
	} `yaml:"items"`
}

func load(t *testing.T, text string, env map[string]string) (file, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "unavez.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var f file
	err := config.Load(config.Source{
		Path: path, Getenv: func(k string) string { return env[k] },
		Overrides: map[string]string{"listen.ingress": "UNAVEZ_LISTEN_INGRESS"},
	}, &f)
	return f, err
}

func TestLoadResolvesSecretsAndEnvironment(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(secret, []byte("from file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := load(t, "wait: 36h\nitems:\n- {name: a, secrets: [env:S1, 'file:"+secret+"'], secret: env:S2}\n",
		map[string]string{"S1": "one", "S2": "0x1F", "UNAVEZ_LISTEN_INGRESS": "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if f.Wait != 36*time.Hour || f.Listen.Ingress != "127.0.0.1:1" {
		t.Errorf("got %+v", f)
	}
	it := f.Items[0]
	if it.Secrets[0] != "one" || it.Secrets[1] != "from file" || it.Secret != "0x1F" {
		t.Errorf("secrets are %q and %q", it.Secrets, it.Secret)
	}
}

func TestLoadReportsEveryProblemWithItsLine(t *testing.T) {
	_, err := load(t, "\n\nlisten: {ingres: x}\nwait: soon\nitems:\n- secret: plain\n- secrets: [env:MISSING]\n", nil)
	var p config.Problems
	if !errors.As(err, &p) {
		t.Fatalf("error is %v", err)
	}
	text := p.Error()
	for _, want := range []string{"line 3", "ingres", "line 4", "line 6: secret", "line 7: secrets", "MISSING"} {
		if !strings.Contains(text, want) {
			t.Errorf("problems do not name %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "plain") {
		t.Errorf("the problem shows the secret:\n%s", text)
	}
}

func TestLoadRefusesOtherDocuments(t *testing.T) {
	for _, text := range []string{"- a\n", "a: 1\n---\nb: 2\n", "{", "just text"} {
		if _, err := load(t, text, nil); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	if _, err := load(t, "", nil); err != nil {
		t.Errorf("an empty file is refused: %v", err)
	}
	var f file
	err := config.Load(config.Source{Path: filepath.Join(t.TempDir(), "none")}, &f)
	if !errors.Is(err, config.ErrNoFile) {
		t.Errorf("a missing file gives %v", err)
	}
}
