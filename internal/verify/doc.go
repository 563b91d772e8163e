// Command verify compares the documents with the code they speak about.
//
// It stands outside the flow: `make verify` runs it in the module's root.
// Invariant: what it passes is true of the tree as it is now, for it reads the
// sources and runs the generators itself. A crash here costs a check, no data.
//
// It checks that
//
//   - docs/promises.md names tests that exist and that carry the promise's id;
//     a promise without a test fails only with STRICT=1;
//   - relative links in all Markdown files lead to a file, and their fragments
//     to a heading;
//   - every decision record has its sections, its own number and its line in
//     the index;
//   - every module that our packages import directly has its reason in
//     docs/adr/0005-dependencies.md, and go.mod requires what that page names;
//   - the generated files are what their generators write today.
//
// A generator is a program of this module that prints the file to standard
// output; -write (`make generate`) puts the output, and the index of the
// decision records, in place.
package main
