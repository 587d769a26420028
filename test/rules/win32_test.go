// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// escapes keeps what a uintptr was made of in its place, and alive, during a call.
const escapes = "//go:uintptrescapes"

// takePointers are functions of others that may be given a pointer as a uintptr: those with the
// directive, and those for memory of Windows.
var takePointers = []string{"syscall.SyscallN", "windows.WTSFreeMemory"}

// checkPointers returns what is wrong with the calls of Win32 in the files of a package. Go moves
// stacks, and frees what nothing refers to: a pointer that was made a number keeps neither from
// happening, unless that is done in the call of a function that says so.
func checkPointers(files []sourceFile) ([]string, error) {
	var problems []string
	marked := slices.Clone(takePointers)
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, f := range files {
		file, err := parser.ParseFile(set, f.path, f.content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parsing %s: %w", f.path, err)
		}
		parsed = append(parsed, file)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if f.Doc != nil && slices.ContainsFunc(f.Doc.List, func(c *ast.Comment) bool { return c.Text == escapes }) {
				marked = append(marked, f.Name.Name)
			} else if list := f.Type.Params.List; len(list) > 0 && types.ExprString(list[len(list)-1].Type) == "...uintptr" {
				problems = append(problems, fmt.Sprintf("%s: %s takes numbers that may be pointers, and is not marked %s", set.Position(f.Pos()), f.Name.Name, escapes))
			}
		}
	}
	for _, file := range parsed {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			callee := types.ExprString(call.Fun)
			if strings.HasSuffix(callee, ".Call") || slices.Contains(marked, callee) {
				return true
			}
			for _, a := range call.Args {
				if strings.HasPrefix(types.ExprString(a), "uintptr(unsafe.Pointer(") {
					problems = append(problems, fmt.Sprintf("%s: %s gets a pointer as a number, and is not marked %s", set.Position(a.Pos()), callee, escapes))
				}
			}
			return true
		})
	}
	return problems, nil
}

func TestPointers(t *testing.T) {
	packages := map[string][]sourceFile{}
	for _, f := range readTree(t) {
		if path.Ext(f.path) == ".go" && strings.Contains(f.content, "uintptr") {
			packages[path.Dir(f.path)] = append(packages[path.Dir(f.path)], f)
		}
	}
	if len(packages["pkg/agent/windows"]) < 5 {
		t.Error("the calls of Win32 were not found")
	}
	for _, files := range packages {
		problems, err := checkPointers(files)
		if err != nil {
			t.Error(err)
		}
		for _, p := range problems {
			t.Error(p)
		}
	}
}

func TestCheckPointers(t *testing.T) {
	const begin = "package p\n"
	for _, tt := range []struct{ name, code, want string }{
		{name: "by a procedure", code: "func f() { proc.Call(uintptr(unsafe.Pointer(&x))) }"},
		{name: "by a marked function", code: "// g calls.\n//\n//go:uintptrescapes\nfunc g(args ...uintptr) {}\nfunc f() { g(uintptr(unsafe.Pointer(&x))) }"},
		{name: "a function that is not marked", code: "func g(p *P, args ...uintptr) {}", want: "g takes numbers"},
		{name: "by a function of others", code: "func f() { windows.Open(0, uintptr(unsafe.Pointer(&x))) }", want: "windows.Open gets a pointer"},
		{name: "a number", code: "func f() { windows.Open(uintptr(h)) }"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			problems, err := checkPointers([]sourceFile{{path: "p.go", content: begin + tt.code}})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(problems, "\n"); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Error(cmp.Diff(tt.want, got))
			}
		})
	}
}
