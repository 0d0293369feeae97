package scripts

// Look reads what has changed, as Run does twice a second.
func (f *Folder) Look() { f.look() }

// Capped tells whether a built-in of this name is bounded or removed.
func Capped(name string) bool { return capped(name) }

// Banned tells whether a global name may not be mentioned.
func Banned(name string) bool {
	_, banned := bannedNames[name]
	return banned || onlyNew[name]
}

// BuiltIn are the names that no script may have.
func BuiltIn() []string { return builtIn }

// LeaveBehind counts n rankings that do not stop.
func (f *Folder) LeaveBehind(n int32) { f.behind.Add(n) }
