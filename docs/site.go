package docs

// Site is an archive (zip) of the documents as a site, which `make site` makes. It is nil in a program that is not
// built for a release: with the tag docs, and site.zip in this folder.
var Site []byte
