// Package yamlpos reads YAML files and reports every error with its place: the file, the
// line and the path of the field. All files that prober reads go through it, so that they
// have one set of rules and of error messages.
//
// [Decoder.Parse] returns the document of a file. The caller then lists the fields that it knows,
// each with a reader of [Decoder], or has [Decoder.Into] fill in a Go type. [Decoder.Err] returns
// all errors.
//
// The rules of every file:
//   - an alias (*a) has the value of its anchor, and an error inside that value has the line of
//     the anchor;
//   - merge keys (<<) are errors: YAML 1.2 has dropped them, and they hide where a value is from.
//     [Decoder.Loose] accepts them, for the files of other programs;
//   - a field is set at most once in its mapping, and its name is a scalar;
//   - a document with its aliases written out is at most [MaxDepth] levels deep and has at
//     most [MaxNodes] values and [MaxText] bytes of text;
//   - a null value is not a string, a mapping or a list.
//
// Read parse.go first, then decoder.go. typed.go reads into Go types, and line.go finds the line of
// a field for later errors.
package yamlpos
