package purge

import (
	"regexp"
	"strings"
	"unicode"
)

var storeName = regexp.MustCompile(`^[a-z][-a-z0-9]{0,31}$`)

// maxStores is the maximum number of stores of a pod: 32 disks and the memory tier.
const maxStores = 33

// Sanitize returns only the valid parts of an agent's answer. This is necessary because an attacker may control a pod,
// and the answer is copied into a status.
func Sanitize(d Done) Done {
	clean := Done{Head: max(d.Head, 0), Applied: max(d.Applied, 0)}
	for _, s := range d.Stores[:min(len(d.Stores), maxStores)] {
		if !storeName.MatchString(s.Name) {
			continue
		}
		s.Reason = strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return -1
			}
			return r
		}, cut(s.Reason, 256))
		for number, c := range s.Counts {
			s.Counts[number] = Count{Files: max(c.Files, 0), Bytes: max(c.Bytes, 0)}
		}
		clean.Stores = append(clean.Stores, s)
	}
	return clean
}
