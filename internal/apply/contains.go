package apply

import "reflect"

// contains returns true if live contains every field of want with an equal value; live may contain more fields. Lists
// whose elements have names, such as containers and volumes, match by name, as server-side apply merges them. Elements
// that somebody else has added to such a list do not matter. Other lists match element by element.
func contains(live, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range w {
			if !contains(l[key], value) {
				return false
			}
		}
		return true
	case []any:
		l, ok := live.([]any)
		if !ok {
			return false
		}
		if elements, named := byName(w); named {
			liveElements, _ := byName(l)
			return contains(liveElements, elements)
		}
		if len(l) != len(w) {
			return false
		}
		for i, value := range w {
			if !contains(l[i], value) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(live, want)
}

// byName turns a list of objects with names into a map by name. named is false for any other list.
func byName(list []any) (elements map[string]any, named bool) {
	elements = map[string]any{}
	for _, element := range list {
		object, ok := element.(map[string]any)
		if !ok {
			return elements, false
		}
		name, ok := object["name"].(string)
		if !ok {
			return elements, false
		}
		elements[name] = object
	}
	return elements, true
}
