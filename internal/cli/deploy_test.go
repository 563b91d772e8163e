package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	deploy = "../../deploy"
	module = "../.."
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The compose file is well-formed, starts the ledger first, asks for every
// secret, and opens only the ingress, on loopback.
func TestComposeFile(t *testing.T) {
	var c struct {
		Services map[string]struct {
			Build       struct{ Context string }
			Command     []string
			Environment map[string]string
			Ports       []string
			Volumes     []string
			DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
			Healthcheck struct{ Test []string }
			ReadOnly    bool `yaml:"read_only"`
		}
		Volumes map[string]any
	}
	text := read(t, filepath.Join(deploy, "compose", "compose.yaml"))
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	app, database := c.Services["unavez"], c.Services["postgres"]
	if app.DependsOn["postgres"].Condition != "service_healthy" || len(database.Healthcheck.Test) == 0 {
		t.Error("unavez does not wait for a healthy PostgreSQL")
	}
	if !slices.Equal(app.Healthcheck.Test, []string{"CMD", "unavez", "healthcheck"}) {
		t.Errorf("the health check is %q", app.Healthcheck.Test)
	}
	if !slices.Equal(app.Ports, []string{"127.0.0.1:8080:8080"}) || len(database.Ports) > 0 {
		t.Errorf("the ports are %q and %q", app.Ports, database.Ports)
	}
	if _, err := os.Stat(filepath.Join(deploy, "compose", app.Build.Context, "Dockerfile")); err != nil {
		t.Error(err)
	}
	if err := parsesAsCommand(app.Command); err != nil {
		t.Errorf("the command %q: %v", app.Command, err)
	}
	for _, v := range slices.Concat(app.Volumes, database.Volumes) {
		source, _, _ := strings.Cut(v, ":")
		if _, named := c.Volumes[source]; named {
			continue
		}
		if _, err := os.Stat(filepath.Join(deploy, "compose", source)); err != nil {
			t.Errorf("volume %s: %v", v, err)
		}
	}
	env := read(t, filepath.Join(deploy, "compose", "unavez.example.env"))
	for _, m := range regexp.MustCompile(`\$\{([A-Z_]+)`).FindAllStringSubmatch(text, -1) {
		if !regexp.MustCompile(`(?m)^` + m[1] + `=$`).MatchString(env) {
			t.Errorf("unavez.example.env lacks %s", m[1])
		}
	}
	for _, m := range exampleSecret.FindAllStringSubmatch(read(t, filepath.Join(deploy, "compose", "unavez.yaml")), -1) {
		if app.Environment[m[1]] == "" {
			t.Errorf("the container lacks the variable %s", m[1])
		}
	}
}

// The image is static and not run by root, and is built with the newest Go
// that SECURITY.md names.
func TestDockerfile(t *testing.T) {
	text := read(t, filepath.Join(module, "Dockerfile"))
	stages := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(text, -1)
	if len(stages) != 2 || stages[1][1] != "scratch" {
		t.Errorf("the stages are %q", stages)
	}
	if !strings.Contains(text, "CGO_ENABLED=0 go build") {
		t.Error("the program is not static")
	}
	if user := regexp.MustCompile(`(?m)^USER ([1-9]\d*):([1-9]\d*)$`).FindString(text); user == "" {
		t.Error("the image is run by root")
	}
	version := regexp.MustCompile(`(?m)^ARG GO_VERSION=(\S+)$`).FindStringSubmatch(text)
	newest := regexp.MustCompile(`Build for production with [\d., ]+?(\d+\.\d+\.\d+) or newer`).FindStringSubmatch(read(t, filepath.Join(module, "SECURITY.md")))
	if version == nil || newest == nil || version[1] != newest[1] {
		t.Errorf("the image is built with Go %q, SECURITY.md names %q", version, newest)
	}
	for _, m := range regexp.MustCompile(`(?m)^(?:CMD|ENTRYPOINT|HEALTHCHECK.* CMD) (\[.*\])$`).FindAllStringSubmatch(text, -1) {
		var words []string
		if err := yaml.Unmarshal([]byte(m[1]), &words); err != nil {
			t.Fatalf("%s: %v", m[0], err)
		}
		if words[0] == "unavez" {
			words = words[1:]
		}
		if err := parsesAsCommand(words); err != nil {
			t.Errorf("%s: %v", m[0], err)
		}
	}
}
