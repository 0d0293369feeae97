package conf

// bindJSON reads the body of an admin call, whose paths begin with what.
func bindJSON[T any](what string, data []byte, v value[T], to *T) error {
	node, err := readJSON(data)
	if err != nil {
		return Problems{{Path: what, Reason: err.Error()}}
	}
	b := &binder{api: true}
	if v.read(b, place{node, what}, to); len(b.problems) > 0 {
		return Problems(b.problems)
	}
	return nil
}
