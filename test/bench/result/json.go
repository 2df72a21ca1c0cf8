package result

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// Write writes a result to NAME.json in a folder, which must be there.
func Write(folder, name string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".json"), append(text, '\n'), 0o644)
}

// Values are those of a figure in all samples, in order.
func Values[S any](samples []S, figure func(S) float64) []float64 {
	var list []float64
	for _, s := range samples {
		list = append(list, figure(s))
	}
	return list
}
