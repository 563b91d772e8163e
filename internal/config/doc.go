// Package config reads the configuration file and the environment into a
// struct, strictly, and reports every problem at once with its line.
//
// Place: under the command line; it knows no stage. Secrets are only taken by
// reference (env:NAME, file:path), so that a file can be shown to anybody.
//
// A crash here costs nothing: it runs before anything is started.
package config
