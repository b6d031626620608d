// Package yamlpos reads YAML files and reports every error with its position: the file, the
// line and the path of the field. All YAML files that prober reads use it, so that they
// share rules and error messages.
//
// [Decoder.Parse] returns the document of a file. The caller then reads known fields, each with a reader of
// [Decoder], or fills a Go type with [Decoder.Into]. [Decoder.Err] returns all errors.
//
// The rules of every file:
//   - an alias (*a) has the value of its anchor, and an error inside that value has the line of
//     the anchor;
//   - merge keys (<<) are errors: YAML 1.2 has dropped them, and they hide the origin of a value.
//     [Decoder.Loose] accepts them, for files of other programs;
//   - a field is set at most once in its mapping, and its name is a scalar;
//   - a document with its aliases written out is at most [MaxDepth] levels deep and has at
//     most [MaxNodes] values and [MaxText] bytes of text;
//   - a null value is not a string, a mapping or a list.
//
// Read parse.go first, then decoder.go. typed.go reads into Go types, and line.go finds the line of
// a field for later errors.
package yamlpos
