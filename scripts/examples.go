package scripts

import (
	"embed"
	"io/fs"
)

//go:embed headway.d.ts examples/*.js
var files embed.FS

// Files are what ships for writers of scripts: headway.d.ts, which says what a script
// sees, and examples/*.js, the built-in strategies among them.
func Files() fs.FS { return files }
