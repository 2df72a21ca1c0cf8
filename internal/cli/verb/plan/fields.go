package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/edit"
	"github.com/cachenode/cachenode-operator/internal/effective"
)

// change is a field that an edit changes. A list counts as one field, except the list of disks, whose items have
// names.
type change struct {
	path []string
	// before and after are the values of the field as in YAML; nil if the field is not set.
	before, after any
}

// fieldsThatChange returns the changed fields. For each field, it returns the effect that the change would have if it
// were the only one.
func fieldsThatChange(now effective.CacheNode, before, next *v1alpha1.CacheNode) (list []field, err error) {
	old, err := fieldsOf(before.Spec)
	if err != nil {
		return nil, err
	}
	after, err := fieldsOf(next.Spec)
	if err != nil {
		return nil, err
	}
	for _, c := range differences(nil, old, after) {
		effect, err := c.effect(now, before, old)
		if err != nil {
			return nil, err
		}
		list = append(list, field{strings.Join(c.path, "."), text(c.before), text(c.after), effect})
	}
	return list, nil
}

// choices returns what the operator chooses differently because of the edit.
func choices(now, next effective.CacheNode) (list []string) {
	for _, choice := range next.Tuning {
		subject, _, _ := strings.Cut(choice, " is ")
		if !slices.Contains(now.Tuning, choice) && (subject == "memoryTier" || subject == "io.mode") {
			list = append(list, choice)
		}
	}
	return list
}

// effect returns what the change does if it is the only change.
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
	after := effective.Of(alone, now.Before())
	e, err := between(now, after)
	if err != nil {
		return "", err
	}
	effects := []string{"no pod is touched"}
	switch {
	case e.NewPods:
		effects[0] = "the pods are replaced"
	case e.NewRevision:
		effects[0] = "nginx reloads"
	}
	for _, cached := range edit.CachedOf(now.Spec, after.Spec) {
		effects = append(effects, cached.Note)
	}
	return strings.Join(effects, "; "), nil
}

// differences returns the fields that differ.
func differences(path []string, before, after map[string]any) (list []change) {
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
			list = append(list, differences(at, old, changed)...)
		default:
			list = append(list, change{path: at, before: was, after: is})
		}
	}
	return list
}

// isDisk returns true for the path of a whole disk, which is added or removed.
func isDisk(path []string) bool { return len(path) == 2 && path[0] == disksField }

// disksField is the name of the list of disks, whose items have names.
const disksField = "disks"

// fieldsOf returns a spec as maps, in which the disks are a map by name.
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

// specOf turns the maps that fieldsOf returns into a spec again.
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

// text returns a value as a short text.
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
