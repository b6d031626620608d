// Package publicpage writes a public status page as static files without scripts: pages, badges and a feed.
//
// Read [Page] first: it has everything that is published. [Page.Write] makes the files. pages.go has the pages,
// bars.go the bars of the days, incidents.go groups failures, badge.go and feed.go have the other files.
// [Dir] replaces the files in the folder of a web server.
package publicpage
