// Command house prints numbers that show whether the code stays small. It counts the methods of the largest types, the
// fields of a reconciliation pass, and the lines of the largest packages. It also counts the files that read
// spec.origin, spec.hosts or spec.cache. It reads the Go files in the folders api, cmd, controllers and internal,
// without tests and generated files. With -at, it reads the files of a commit. With -words, it prints only the
// functions whose doc comment does not continue with a verb such as "returns" after the name. It fails if there are any
// such functions.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// parts are the folders with the code that runs in a cluster or on a user's machine.
var parts = []string{"api", "cmd", "controllers", "internal"}

func main() {
	log.SetFlags(0)
	words := flag.Bool("words", false, "print the comments that do not say what a function returns or does")
	at := flag.String("at", "", "count what a commit has")
	flag.Parse()
	if err := count(*at, *words); err != nil {
		log.Fatal(err)
	}
}

// count prints the numbers of the current folder or, if at is not "", of the commit at. With words, it prints the doc
// comments that do not say what a function does, and returns an error if there are any.
func count(at string, words bool) (err error) {
	if at != "" {
		var folder string
		if folder, err = os.MkdirTemp("", "house-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
		unpack := exec.Command("bash", "-o", "pipefail", "-c", `git archive "$0" | tar -x -C "$1"`, at, folder)
		unpack.Stderr = os.Stderr
		if err := cmp.Or(unpack.Run(), os.Chdir(folder)); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	h := house{
		methods: map[string]int{}, lines: map[string]int{}, structs: map[string]*ast.StructType{},
		sites: map[string]int{},
	}
	for _, part := range parts {
		if err := h.read(part); err != nil {
			return err
		}
	}
	if !words {
		h.print()
		return nil
	}
	for _, place := range h.narrated {
		fmt.Println(place + `: the word after a function's name is "returns" or another that says what it does`)
	}
	if n := len(h.narrated); n > 0 {
		return fmt.Errorf("%d comments", n)
	}
	return nil
}

// house contains the counts.
type house struct {
	methods map[string]int // by package and type
	lines   map[string]int // by package
	structs map[string]*ast.StructType
	sites   map[string]int // number of places that read spec.origin, spec.hosts or spec.cache, by file
	// narrated lists the functions whose doc comment does not say what the function does, each with its file.
	narrated []string
}

func (h *house) read(folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if name == "nginxtest" { // only for tests
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			strings.HasPrefix(name, "zz_generated") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		h.lines[filepath.Dir(path)] += files.File(file.Pos()).LineCount()
		h.count(path, file)
		return nil
	})
}

func (h *house) count(path string, file *ast.File) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncDecl:
			h.function(path, n)
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok {
				h.structs[filepath.Dir(path)+"."+n.Name.Name] = s
			}
		case *ast.SelectorExpr:
			if ofSite(n) {
				h.sites[path]++
			}
		}
		return true
	})
}

func (h *house) function(path string, f *ast.FuncDecl) {
	if f.Recv != nil {
		receiver := f.Recv.List[0].Type
		if star, ok := receiver.(*ast.StarExpr); ok {
			receiver = star.X
		}
		if name, ok := receiver.(*ast.Ident); ok {
			h.methods[filepath.Dir(path)+"."+name.Name]++
		}
	}
	if f.Doc == nil {
		return
	}
	words := strings.Fields(f.Doc.Text())
	if len(words) > 1 && words[0] == f.Name.Name && !says(words[1]) {
		h.narrated = append(h.narrated, path+": "+f.Name.Name)
	}
}

// says returns true for a word that says what a function does, such as "returns". It returns false for words such as
// "is" and "say".
func says(word string) bool {
	word = strings.TrimRight(word, ",.;:")
	return strings.HasSuffix(word, "s") && !slices.Contains([]string{"is", "has"}, word)
}

// ofSite returns true for an expression that reads spec.origin, spec.hosts or spec.cache, such as X.Spec.Origin or
// spec.Hosts.
func ofSite(s *ast.SelectorExpr) bool {
	if !slices.Contains([]string{"Origin", "Hosts", "Cache"}, s.Sel.Name) {
		return false
	}
	switch of := s.X.(type) {
	case *ast.SelectorExpr:
		return of.Sel.Name == "Spec"
	case *ast.Ident:
		return strings.EqualFold(of.Name, "spec")
	}
	return false
}

// fields returns the number of fields of a struct, including the fields of embedded structs of the same package.
func (h *house) fields(folder, name string) (n int) {
	s := h.structs[folder+"."+name]
	if s == nil {
		return 1
	}
	for _, field := range s.Fields.List {
		if of, ok := field.Type.(*ast.Ident); ok && len(field.Names) == 0 {
			n += h.fields(folder, of.Name)
		} else {
			n += max(len(field.Names), 1)
		}
	}
	return n
}

// allMethods returns the number of methods of a type, including the methods of embedded types of the same package.
func (h *house) allMethods(name string) (n int) {
	n = h.methods[name]
	s := h.structs[name]
	if s == nil {
		return n
	}
	for _, field := range s.Fields.List {
		of := field.Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if of, ok := of.(*ast.Ident); ok && len(field.Names) == 0 {
			n += h.allMethods(name[:strings.LastIndexByte(name, '.')+1] + of.Name)
		}
	}
	return n
}

// withEmbedded returns the number of methods of each struct, including the methods of embedded types.
func (h *house) withEmbedded() map[string]int {
	all := map[string]int{}
	for name := range h.structs {
		all[name] = h.allMethods(name)
	}
	return all
}

func (h *house) print() {
	fmt.Println("methods of the largest values, and with those of the values that they embed:")
	for _, name := range most(h.methods, 5) {
		fmt.Printf("%7d %5d  %s\n", h.methods[name], h.allMethods(name), name)
	}
	fmt.Println("and of the values with the most, with those that they embed:")
	for _, name := range most(h.withEmbedded(), 3) {
		fmt.Printf("%13d  %s\n", h.allMethods(name), name)
	}
	fmt.Printf("fields of the pass over a CacheNode that reach a phase: %d, and the report: %d\n",
		h.fields("controllers", "pass"), h.fields("controllers", "finished"))
	uses := 0
	for _, n := range h.sites {
		uses += n
	}
	fmt.Printf("files that know spec.origin, spec.hosts or spec.cache: %d, in %d places\n", len(h.sites), uses)
	fmt.Printf("comments that say what a function is, are or has: %d\n", len(h.narrated))
	sum := 0
	for _, n := range h.lines {
		sum += n
	}
	fmt.Printf("lines without tests: %d in %d packages, the largest:\n", sum, len(h.lines))
	for _, name := range most(h.lines, 10) {
		fmt.Printf("%7d  %s\n", h.lines[name], name)
	}
}

// most returns the n keys with the largest values, largest first.
func most(counts map[string]int, n int) []string {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	return keys[:min(n, len(keys))]
}
