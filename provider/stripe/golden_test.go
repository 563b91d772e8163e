package stripe_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
)

var update = flag.Bool("update", false, "write the parsed files of testdata anew; read them before committing")

// testAccount is the account that the payloads of testdata belong to.
func testAccount() *provider.Account {
	return &provider.Account{
		Name: "stripe-es", Provider: "stripe", ProviderAccount: "acct_mine", Mode: provider.Live,
		Secrets: []provider.Secret{"whsec_first"}, OrderMetadata: "order_id",
	}
}

// raws returns the payloads of testdata by name.
func raws(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata: %d files, %v", len(files), err)
	}
	all := map[string][]byte{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = raw
	}
	return all
}

// R2.3, R2.8: each payload of testdata is read as the file beside it says.
func TestGolden(t *testing.T) {
	for name, raw := range raws(t) {
		ev, err := stripe.Adapter{}.Parse(testAccount(), raw)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := json.Marshal(ev, json.Deterministic(true), json.OmitZeroStructFields(true), jsontext.WithIndent("  "))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		file := filepath.Join("testdata", name+".parsed")
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is read as\n%s\nwant\n%s", name, got, want)
		}
	}
}
