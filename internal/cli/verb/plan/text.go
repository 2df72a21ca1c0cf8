package plan

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/table"
	"github.com/cachenode/cachenode-operator/internal/edit"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/status"
)

// writeText prints a result for people. limit is rollout.maxKeyMovement; nil if there is none.
func writeText(out io.Writer, r result, limit *int32) {
	say := func(format string, values ...any) { _, _ = fmt.Fprintf(out, format+"\n", values...) }
	if r.Revision != "" {
		say("The pods do not run the present spec yet: keys and pods are compared with revision %s", r.Revision)
	}
	writeKeys(out, r, limit)
	if o := r.Owners; o != nil {
		say("Owners: %s of the keys get another pod (any plan must move %s), which fills them from the previous one for %s",
			percent(o.Ratio), percent(o.Least), o.handover())
	}
	if r.Acknowledge != "" {
		say("This is more than rollout.maxKeyMovement, %d%%: it waits for the annotation\n  %s: %q",
			*limit, v1alpha1.AnnotationAcknowledged, r.Acknowledge)
	}
	if len(r.Fields) > 0 {
		rows := table.New(out, -1, "  FIELD", "FROM", "TO", "BY ITSELF")
		for _, f := range r.Fields {
			rows.Row("  spec."+f.Path, f.From, f.To, f.Effect)
		}
		say("Fields that change, and what each does by itself:")
		rows.Write()
	}
	for _, choice := range r.Chosen {
		say("Chosen: %s", choice)
	}
	say("Pods: %s", r.Pods.text())
	for _, c := range r.Claims {
		say("Claims: %s", c.text())
	}
	for _, c := range r.Routes {
		verb := map[string]string{routeCreate: "is new", routeUpdate: "changes", routeDelete: "is deleted"}[c.Action]
		fate := ", and its objects stay in the caches"
		switch {
		case c.Action == routeCreate:
			fate = ""
		case c.Lost:
			fate = ", and the caches no longer find some of its objects, or all"
		}
		say("Route: %s %s%s", c.Route, verb, fate)
	}
}

// writeKeys prints which keys move, and whether the cache no longer finds objects.
func writeKeys(out io.Writer, r result, limit *int32) {
	say := func(format string, values ...any) { _, _ = fmt.Fprintf(out, format+"\n", values...) }
	isCold := func(c edit.Cached) bool { return c.Fate == edit.Cold }
	switch m := r.Keys; {
	case m.Ratio > 0:
		say("Keys: %s of them move (any plan must move %s)%s", percent(m.Ratio), percent(m.Least), m.amount())
		rows := table.New(out, -1, "  FROM", "TO", "SHARE", "BYTES")
		for _, one := range m.Moves {
			size := "-"
			if one.Bytes != nil && *m.Cached > 0 {
				size = status.Size(*one.Bytes)
			}
			rows.Row("  "+one.From, one.To, percent(one.Ratio), size)
		}
		rows.Write()
	case !slices.ContainsFunc(r.Cached, func(c edit.Cached) bool { return c.Fate != edit.Kept }):
		say("Keys: none moves")
	}
	for _, c := range r.Cached {
		label := map[edit.Fate]string{
			edit.Cold: "Keys: all change", edit.Partly: "Keys: some change", edit.Kept: "Cached objects: all stay",
		}[c.Fate]
		say("%s, by spec.%s: %s", label, c.Field, c.Note)
	}
	if slices.ContainsFunc(r.Cached, isCold) {
		if r.Keys.Cached != nil {
			say("  The caches hold %s.", r.Keys.share(*r.Keys.Cached))
		}
		say("  The origin is asked for every object again, and old files stay until they are evicted.")
		if limit != nil {
			say("  rollout.maxKeyMovement does not hold this up: it is about keys that move between disks.")
		}
	}
}

// amount returns a text that says how many bytes move; "" if that is not known.
func (m movement) amount() string {
	if m.Bytes == nil {
		return ""
	}
	return ", " + m.share(*m.Bytes)
}

// share returns a text that shows a number of bytes and, for comparison, the total size of all cached objects. An agent
// measures its caches once a minute.
func (m movement) share(bytes int64) string {
	switch *m.Cached {
	case 0:
		return "nothing as far as the agents have measured, which they do once a minute"
	case bytes:
		return fmt.Sprintf("about %s (estimated, up to a minute old)", status.Size(bytes))
	}
	return fmt.Sprintf("about %s of %s (estimated, up to a minute old)", status.Size(bytes), status.Size(*m.Cached))
}

func percent(ratio float64) string { return shard.Percent(int(math.Round(ratio * 1e4))) }

// text returns the line that says what the edit does to the pods.
func (p pods) text() string {
	var parts []string
	switch {
	case len(p.Replaced) > 0:
		order := ", one after another, in this order"
		if len(p.Replaced) < 2 {
			order = ""
		}
		parts = append(parts, fmt.Sprintf("%s replaced%s; the disks that stay keep their files", are(p.Replaced), order))
	case p.Reload:
		parts = append(parts, "none is replaced; nginx reloads in each, without a restart")
	case p.stay > 0:
		parts = append(parts, "none is replaced, and nginx goes on as it is")
	}
	if len(p.Created) > 0 {
		parts = append(parts, are(p.Created)+" created")
	}
	if len(p.Removed) > 0 {
		parts = append(parts, are(p.Removed)+" removed")
	}
	return strings.Join(parts, "; ")
}

// are lists names, and adds "is" or "are".
func are(list []string) string {
	switch n := len(list); {
	case n == 1:
		return list[0] + " is"
	case n > 6:
		return fmt.Sprintf("%s, ... %s are", strings.Join(list[:3], ", "), list[n-1])
	default:
		return strings.Join(list, ", ") + " are"
	}
}

func (c claim) text() string {
	switch c.Action {
	case claimCreate:
		return fmt.Sprintf("one of %s for %s is created for each pod", c.To, c.Disk)
	case claimGrow:
		return fmt.Sprintf("those for %s grow from %s to %s if their class allows expansion", c.Disk, c.From, c.To)
	}
	return fmt.Sprintf("those for %s are deleted, and what is cached there with them", c.Disk)
}
