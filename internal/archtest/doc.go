// Package archtest keeps the code in the shape of the design: who may import
// whom, what may be called a package, how long a file may be.
//
// It stands outside the flow: it reads the sources and nothing imports it. It
// parses them itself, so that build tags hide nothing. Invariant: the table in
// picture.go is the design, and the tree obeys it. A fault here lets a wrong
// arrow in; it never costs data.
package archtest
