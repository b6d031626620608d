// Package yamlpos reads YAML files and reports every error with its place: the file, the
// line and the path of the field. All files that prober reads go through it, so that they
// have one set of rules and of error messages.
//
// [Decoder.Parse] returns the document of a file; a caller then describes the fields that
// it expects with the readers of [Decoder], or has [Decoder.Into] fill in a Go type. Errors
// are gathered: [Decoder.Err] returns all of them.
//
// The rules of every file:
//   - an alias (*a) stands for the value of its anchor, and an error inside that value has
//     the line of the anchor;
//   - merge keys (<<) are refused: YAML 1.2 dropped them, and they hide where a value is from;
//   - a field is set once in its mapping, and its name is a scalar;
//   - a document with its aliases written out is at most [MaxDepth] levels deep and has at
//     most [MaxNodes] values and [MaxText] bytes of text;
//   - a null value is not a string, a mapping or a list.
//
// Read parse.go first, then decoder.go; typed.go reads into Go types, and line.go finds the
// line of a field that was checked later.
package yamlpos
