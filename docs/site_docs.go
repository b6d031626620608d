//go:build docs

package docs

import _ "embed"

//go:embed site.zip
var site []byte

func init() { Site = site }
