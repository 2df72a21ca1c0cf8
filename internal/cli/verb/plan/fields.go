package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/table"
	"github.com/cachenode/cachenode-operator/internal/effective"
)

// change is a field that an edit changes. A list is one field, except the disks, which have names.
type change struct {
	path []string
	// before and after are the values as YAML has them; nil if the field is not set.
	before, after any
}

// writeFields lists the changed fields, each with what it does by itself.
func writeFields(out io.Writer, now effective.CacheNode, before, next *v1alpha1.CacheNode) error {
	old, err := fieldsOf(before.Spec)
	if err != nil {
		return err
	}
	changed, err := fieldsOf(next.Spec)
	if err != nil {
		return err
	}
	list := changes(nil, old, changed)
	if len(list) == 0 {
		return nil
	}
	rows := table.New(out, -1, "  FIELD", "FROM", "TO", "BY ITSELF")
	for _, c := range list {
		effect, err := c.effect(now, before, old)
		if err != nil {
			return err
		}
		rows.Row("  spec."+strings.Join(c.path, "."), text(c.before), text(c.after), effect)
	}
	_, _ = fmt.Fprintln(out, "Fields that change, and what each does by itself:")
	rows.Write()
	return nil
}

// writeChoices prints what the operator chooses differently because of the edit.
func writeChoices(out io.Writer, now, next effective.CacheNode) {
	for _, choice := range next.Tuning {
		subject, _, _ := strings.Cut(choice, " is ")
		if !slices.Contains(now.Tuning, choice) && (subject == "memoryTier" || subject == "io.mode") {
			_, _ = fmt.Fprintln(out, "Chosen:", choice)
		}
	}
}

// effect says what the change does if it is the only one.
func (c change) effect(now effective.CacheNode, before *v1alpha1.CacheNode, old map[string]any) (string, error) {
	if c.path[0] == "replicas" {
		return "pods are created or removed", nil
	}
	fields, err := copied(old)
	if err != nil {
		return "", err
	}
	set(fields, c.path, c.after)
	alone := before.DeepCopy()
	if alone.Spec, err = specOf(fields); err != nil {
		return "", err
	}
	e, err := between(now, effective.Of(alone, now.Before()))
	switch {
	case err != nil:
		return "", err
	case e.NewPods:
		return "the pods are replaced", nil
	case e.NewRevision:
		return "nginx reloads", nil
	}
	return "no pod is touched", nil
}

// changes returns the fields that differ.
func changes(path []string, before, after map[string]any) (list []change) {
	names := map[string]any{}
	maps.Copy(names, before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, is := before[name], after[name]
		at := append(slices.Clone(path), name)
		old, wasObject := was.(map[string]any)
		changed, isObject := is.(map[string]any)
		switch {
		case reflect.DeepEqual(was, is):
		case wasObject && isObject, (wasObject || isObject) && (was == nil || is == nil) && !isDisk(at):
			list = append(list, changes(at, old, changed)...)
		default:
			list = append(list, change{path: at, before: was, after: is})
		}
	}
	return list
}

// isDisk is true for the path of a whole disk, which is added or removed.
func isDisk(path []string) bool { return len(path) == 2 && path[0] == disksField }

// disksField is the list whose items have names.
const disksField = "disks"

// fieldsOf returns a spec as maps, with the disks by name.
func fieldsOf(spec v1alpha1.CacheNodeSpec) (map[string]any, error) {
	var fields map[string]any
	if err := convert(spec, &fields); err != nil {
		return nil, err
	}
	disks := map[string]any{}
	for _, d := range fields[disksField].([]any) {
		disk := d.(map[string]any)
		disks[fmt.Sprint(disk["name"])] = disk
	}
	fields[disksField] = disks
	return fields, nil
}

// specOf is the inverse of fieldsOf.
func specOf(fields map[string]any) (spec v1alpha1.CacheNodeSpec, err error) {
	list := []any{}
	disks := fields[disksField].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(disks)) {
		list = append(list, disks[name])
	}
	fields[disksField] = list
	return spec, convert(fields, &spec)
}

func copied(fields map[string]any) (c map[string]any, err error) { return c, convert(fields, &c) }

func convert(from, to any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

// set sets a field, or removes it if the value is nil.
func set(fields map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		inner, ok := fields[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			fields[name] = inner
		}
		fields = inner
	}
	if last := path[len(path)-1]; value == nil {
		delete(fields, last)
	} else {
		fields[last] = value
	}
}

// text shows a value in a few characters.
func text(value any) string {
	switch value.(type) {
	case nil:
		return "-"
	case map[string]any:
		return "set"
	}
	data, err := json.Marshal(value)
	if err != nil {
		return "?"
	}
	const most = 60
	if s := strings.Trim(string(data), `"`); len(s) <= most {
		return s
	}
	return string(data[:most]) + "..."
}
