// Command valuesschema prints values.schema.json, the JSON schema for the values.yaml of a chart. Types come from the
// default values, and descriptions come from comments of the form "# -- ...". Comments of the form "# @schema {...}"
// contain other rules as JSON Schema. If a default value is a map that contains keys, only these keys are allowed. If
// a default value is an empty map, all keys are allowed. An @schema comment replaces these two rules.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: valuesschema VALUES.YAML >values.schema.json")
	}
	data, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		log.Fatal(err)
	}
	schema, err := object(document.Content[0])
	if err != nil {
		log.Fatal(err)
	}
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["properties"].(map[string]any)["global"] = map[string]any{
		"type": "object", "description": "Values of a chart that this one is part of; not used.",
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(schema); err != nil {
		log.Fatal(err)
	}
}

// object returns the schema of a map that allows only the keys of the map.
func object(cacheNode *yaml.Node) (map[string]any, error) {
	properties := map[string]any{}
	for i := 0; i+1 < len(cacheNode.Content); i += 2 {
		key, value := cacheNode.Content[i], cacheNode.Content[i+1]
		schema, err := property(key, value)
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", key.Line, key.Value, err)
		}
		properties[key.Value] = schema
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}, nil
}

// property returns the schema of one value, with the rules of its comment.
func property(key, value *yaml.Node) (map[string]any, error) {
	description, extra, err := comment(key.HeadComment)
	if err != nil {
		return nil, err
	}
	var schema map[string]any
	switch {
	case value.Kind == yaml.SequenceNode:
		schema = map[string]any{"type": "array"}
	case value.Kind == yaml.MappingNode && (extra != nil || len(value.Content) == 0):
		schema = map[string]any{"type": "object"}
	case value.Kind == yaml.MappingNode:
		if schema, err = object(value); err != nil {
			return nil, err
		}
	default:
		types := map[string]string{"!!str": "string", "!!int": "integer", "!!bool": "boolean"}
		schema = map[string]any{"type": types[value.Tag]}
	}
	maps.Copy(schema, extra)
	if description == "" && schema["properties"] == nil {
		return nil, fmt.Errorf("there is no comment that begins with \"# -- \"")
	}
	if description != "" {
		schema["description"] = description
	}
	return schema, nil
}

// comment splits a comment into its description and the rules of its @schema lines.
func comment(text string) (description string, extra map[string]any, err error) {
	var words []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
		if schema, ok := strings.CutPrefix(line, "@schema "); ok {
			if err := json.Unmarshal([]byte(schema), &extra); err != nil {
				return "", nil, fmt.Errorf("@schema: %w", err)
			}
			continue
		}
		if line != "" {
			words = append(words, strings.TrimPrefix(line, "-- "))
		}
	}
	return strings.Join(words, " "), extra, nil
}
