// Package argocd runs the health check for Argo CD whose script is in docs/gitops. It uses the same Lua interpreter as
// Argo CD.
package argocd

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	lua "github.com/yuin/gopher-lua"
)

// Health is the result of the health check. Argo CD shows its status and its message for an object.
type Health struct{ Status, Message string }

// Check returns the health of a CacheNode. The parameter object is the CacheNode as the API server returns it. The
// script can use Lua's libraries for tables, strings and mathematics. As in Argo CD, it cannot access the operating
// system.
func Check(object map[string]any) (Health, error) {
	_, file, _, _ := runtime.Caller(0)
	script, err := os.ReadFile(filepath.Join(filepath.Dir(file), "../../docs/gitops/argocd-health.lua"))
	if err != nil {
		return Health{}, err
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString, lua.OpenMath} {
		open(state)
	}
	state.SetGlobal("obj", value(state, object))
	if err := state.DoString(string(script)); err != nil {
		return Health{}, err
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return Health{}, fmt.Errorf("the script returns %s, want a table", state.Get(-1).Type())
	}
	return Health{
		Status:  lua.LVAsString(table.RawGetString("status")),
		Message: lua.LVAsString(table.RawGetString("message")),
	}, nil
}

// value converts a JSON value to a Lua value.
func value(state *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, item := range v {
			table.RawSetString(key, value(state, item))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range v {
			table.Append(value(state, item))
		}
		return table
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	}
	return lua.LNil
}
