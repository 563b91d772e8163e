package archtest

// part is one kind of package: where it lives, and which parts it may import.
//
// A place is a folder of the module with everything below it; "*" stands for
// one name. Of several places that fit, the one with the most literal names
// wins. Two folders of one place ("provider/*") are apart from each other: only
// a folder's own subtree is free to it. "." is the root package alone.
type part struct {
	name   string
	places string
	uses   string
}

// picture is the design's arrows, from the inside out.
var picture = []part{
	// part        places                          may import
	{"payment", "payment", ""},
	{"simulator", "simulator", ""}, // its books are the oracle: it knows nothing of ours
	{"helper", "internal/*", "helper"},

	{"provider", "provider", "payment helper"},
	{"adapter", "provider/*", "provider payment helper"},
	{"adapters", "provider/all", "adapter provider payment helper"},

	{"store", "store", "payment helper"},
	{"backend", "store/*", "store payment helper"},

	// Every kind of evidence goes through these two.
	{"inbox", "inbox", "store provider payment helper"},
	{"apply", "apply", "inbox store provider payment helper"},

	{"stage", "receive lookup outbox operation exception reconcile idempotency intake",
		"apply inbox store provider payment helper"},

	{"root", ".", "stage apply inbox backend store adapters adapter provider payment helper"},

	{"edge", "httpapi console",
		"root stage apply inbox backend store adapters adapter provider payment helper"},

	{"cli", "internal/cli internal/config internal/demo",
		"cli edge root stage apply inbox backend store adapters adapter provider payment helper simulator"},

	{"main", "cmd/*", "cli"},

	// What builds, measures and proves the rest; never part of the program.
	{"tool", "internal/archtest internal/bench internal/e2e internal/gen internal/prove internal/testsum internal/verify",
		"tool cli edge root stage apply inbox backend store adapters adapter provider payment helper simulator"},
}

// pure lists what a part may not import of the standard library, the packages
// below each path included.
var pure = map[string]string{
	"payment": "context net database os syscall time math/rand log",
}

// testsToo are the parts whose tests obey the arrows as well. Any other test
// may import what it needs to meet real parts.
var testsToo = map[string]bool{"simulator": true}

// Names that say nothing about what is inside.
const nothingNames = "util utils common manager managers model models helper helpers misc shared base lib"

// fileLinesMax bounds a source file; generated files and tests are not bound.
const fileLinesMax = 500
