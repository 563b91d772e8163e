package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fileBytesMax bounds the configuration file and each secret file.
const fileBytesMax = 1 << 20

// secretKeys are the keys whose values are references to secrets.
var secretKeys = []string{"secret", "secrets", "api_key", "seal_key"}

// Problems are everything that is wrong, at once.
type Problems []string

func (p Problems) Error() string { return strings.Join(p, "\n") }

// ErrNoFile says that the named file does not exist.
var ErrNoFile = errors.New("configuration file does not exist")

// Source is where values come from.
type Source struct {
	// Path of the YAML file; empty reads none.
	Path string
	// Getenv looks up the environment.
	Getenv func(string) string
	// Overrides maps a dotted key to the environment variable that replaces it.
	Overrides map[string]string
}

// Load reads the file and the environment into the struct that into points to.
// Unknown keys, wrong types, secrets that are not references and references
// that lead nowhere are Problems, each with its line. What can be read is read
// even then, so that the caller can look for more; a secret that is not
// resolved is never part of it.
func Load(src Source, into any) error {
	var p Problems
	doc := &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode, Tag: "!!map"}}}
	if src.Path != "" {
		raw, err := read(src.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", src.Path, ErrNoFile)
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", src.Path, err)
		}
		if err := parse(raw, doc); err != nil {
			return fmt.Errorf("%s: %w", src.Path, err)
		}
		// The text itself is decoded once to nowhere, for problems with its lines.
		decode(&p, raw, reflect.New(reflect.TypeOf(into).Elem()).Interface())
	}
	root := doc.Content[0]
	for _, key := range sorted(src.Overrides) {
		if v := src.Getenv(src.Overrides[key]); v != "" {
			set(root, strings.Split(key, "."), v)
		}
	}
	resolve(&p, root, "", src.Getenv)
	text, err := yaml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("writing the configuration with its references resolved: %w", err)
	}
	var again Problems
	decode(&again, text, into)
	if len(p) == 0 {
		// Only a value of the environment can be wrong here alone.
		p = again
	}
	if len(p) > 0 {
		return p
	}
	return nil
}

func parse(raw []byte, doc *yaml.Node) error {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	var got yaml.Node
	switch err := dec.Decode(&got); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return errors.New("holds more than one document")
	}
	if got.Content[0].Kind != yaml.MappingNode {
		return errors.New("is not a mapping of keys to values")
	}
	*doc = got
	return nil
}

func decode(p *Problems, text []byte, into any) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	err := dec.Decode(into)
	var many *yaml.TypeError
	switch {
	case err == nil, errors.Is(err, io.EOF):
	case errors.As(err, &many):
		for _, text := range many.Errors {
			*p = append(*p, plain(text))
		}
	default:
		*p = append(*p, err.Error())
	}
}

// unresolved stands where a secret could not be had.
const unresolved = "unresolved"

var (
	unknownKey = regexp.MustCompile(`^(line \d+): field (.+) not found in type .+$`)
	wrongType  = regexp.MustCompile(`^(line \d+): cannot unmarshal \S+ (.*) into (\S+)$`)
)

// plain words a decoder's problem for somebody who does not read Go.
func plain(text string) string {
	if m := unknownKey.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s: the key %q is not known", m[1], m[2])
	}
	if m := wrongType.FindStringSubmatch(text); m != nil {
		want := map[string]string{"time.Duration": "a duration such as 30s or 24h", "bool": "true or false", "int": "a whole number", "int64": "a whole number"}[m[3]]
		if want == "" {
			want = "of the form that is needed here"
		}
		return fmt.Sprintf("%s: %s is not %s", m[1], m[2], want)
	}
	return text
}

// resolve replaces references to secrets by what they lead to.
func resolve(p *Problems, n *yaml.Node, key string, getenv func(string) string) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			resolve(p, n.Content[i+1], n.Content[i].Value, getenv)
		}
	case yaml.SequenceNode:
		for _, c := range n.Content {
			resolve(p, c, key, getenv)
		}
	case yaml.AliasNode:
		if n.Alias != nil && slices.Contains(secretKeys, key) {
			*p = append(*p, fmt.Sprintf("line %d: %s: an alias cannot stand for a secret", n.Line, key))
		}
	case yaml.ScalarNode:
		if !slices.Contains(secretKeys, key) || n.Value == "" {
			return
		}
		v, err := Secret(n.Value, getenv)
		if err != nil {
			*p = append(*p, fmt.Sprintf("line %d: %s: %v", n.Line, key, err))
			n.SetString(unresolved)
			return
		}
		n.SetString(v)
	}
}

// Secret follows one reference: env:NAME or file:path. The final newline of a
// file is not part of the secret.
func Secret(ref string, getenv func(string) string) (string, error) {
	kind, name, _ := strings.Cut(ref, ":")
	switch kind {
	case "env":
		if v := getenv(name); v != "" {
			return v, nil
		}
		return "", fmt.Errorf("the environment variable %s is not set or empty", name)
	case "file":
		raw, err := read(name)
		if err != nil {
			return "", fmt.Errorf("the secret's file cannot be read: %w", err)
		}
		v := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
		if v == "" {
			return "", fmt.Errorf("the secret's file %s is empty", name)
		}
		return v, nil
	}
	return "", errors.New("a secret is given by reference only: env:NAME or file:path")
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > fileBytesMax {
		return nil, fmt.Errorf("larger than %d bytes", fileBytesMax)
	}
	return raw, nil
}

// set writes a scalar at the path, creating mappings on the way.
func set(n *yaml.Node, path []string, v string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != path[0] {
			continue
		}
		if len(path) == 1 {
			n.Content[i+1] = scalar(v)
			return
		}
		set(n.Content[i+1], path[1:], v)
		return
	}
	child := scalar(v)
	if len(path) > 1 {
		child = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		set(child, path[1:], v)
	}
	n.Content = append(n.Content, scalar(path[0]), child)
}

func scalar(v string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: v} }

func sorted(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
