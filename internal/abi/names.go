package abi

// Names returns the paths of the fields of a document, in order, such as "tls.serverName". "[]" stands for each
// item of a list, "*" for any name. A document that is part of another one has its fields there.
func Names[T any, P document[T]]() []string {
	var doc T
	return appendNames(nil, "", P(&doc).fields())
}

func appendNames(names []string, prefix string, fields []field) []string {
	for _, f := range fields {
		path := prefix + f.name
		switch v := f.to.(type) {
		case []field:
			names = appendNames(names, path+".", v)
		case list:
			if item, err := v.add(); err == nil {
				names = appendNames(names, path+"[].", item)
			}
		case **TLSInfo:
			names = appendNames(names, path+".", new(TLSInfo).fields())
		case *[]string:
			names = append(names, path+"[]")
		case *map[string]string, *[]byte:
			names = append(names, path+".*")
		default:
			names = append(names, path)
		}
	}
	return names
}
