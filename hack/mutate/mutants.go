// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// mutant is one mistake that can be switched on in the program that has all of them.
type mutant struct {
	// ID is what mutate__ is asked for; it holds for one build only.
	ID int
	// Place is the file from the root of the module, Line and Column are where in it.
	Place        string
	Line, Column int
	// What is the function, the kind of the mistake, and the code it is made in.
	What string
}

// finder finds the places for mistakes in one file, and the edits that put them there.
type finder struct {
	place   string
	src     []byte
	fset    *token.FileSet
	info    *types.Info
	pkg     *types.Package
	imports map[string]string // name by path
	skip    map[string]bool   // lines "place:line" where a mistake did not compile

	function string
	next     *int
	mutants  []mutant
	before   map[int][]string // in order, by offset
	after    map[int][]string
	replaced map[int]string // operators
}

// quiet are the packages and variables whose calls tests need not notice: those of messages and metrics.
var quiet = []string{"fmt", "errors", "klog", "log", "slog", "logger", "runtime", "utilruntime", "prometheus", "promauto"}

// manager is what controllers are added to. Code that has one runs in the tests of the system only.
const manager = "sigs.k8s.io/controller-runtime/pkg/manager.Manager"

// uninteresting calls cannot be noticed by tests that are not about races and leaks.
var uninteresting = []string{"panic", "cancel", "close", "Lock", "Unlock", "RLock", "RUnlock", "Close", "Stop", "Done", "Add"}

// find returns the mistakes in the file, and the file with all of them in it.
func (f *finder) find(file *ast.File) ([]mutant, []byte) {
	f.before, f.after, f.replaced = map[int][]string{}, map[int][]string{}, map[int]string{}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			f.function = d.Name.Name
			if d.Recv != nil {
				f.function = strings.TrimLeft(f.text(d.Recv.List[0].Type), "*") + "." + d.Name.Name
			}
			if !f.wires(d) {
				ast.Inspect(d, f.visit)
			}
		case *ast.GenDecl:
			if f.function = "var"; d.Tok == token.VAR {
				ast.Inspect(d, f.visit)
			}
		}
	}
	var out strings.Builder
	for i := 0; i <= len(f.src); i++ {
		after := f.after[i]
		slices.Reverse(after)
		out.WriteString(strings.Join(after, "") + strings.Join(f.before[i], ""))
		if operator, ok := f.replaced[i]; ok {
			out.WriteString(",")
			i += len(operator) - 1
		} else if i < len(f.src) {
			out.WriteByte(f.src[i])
		}
	}
	slices.SortStableFunc(f.mutants, func(a, b mutant) int { return cmp.Compare(a.Line, b.Line) })
	return f.mutants, []byte(out.String())
}

func (f *finder) offset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *finder) text(n ast.Node) string {
	return strings.Join(strings.Fields(string(f.src[f.offset(n.Pos()):f.offset(n.End())])), " ")
}

// wrap puts code around a node, in which %d is the ID of the mutant.
func (f *finder) wrap(n ast.Node, kind, before, after string) bool {
	pos := f.fset.Position(n.Pos())
	if f.skip[fmt.Sprintf("%s:%d", f.place, pos.Line)] {
		return false
	}
	*f.next++
	what := f.text(n)
	if runes := []rune(what); len(runes) > 100 {
		what = string(runes[:100]) + "…"
	}
	f.mutants = append(f.mutants, mutant{*f.next, f.place, pos.Line, pos.Column, f.function + ": " + kind + ": " + what})
	id := fmt.Sprint(*f.next)
	f.before[f.offset(n.Pos())] = append(f.before[f.offset(n.Pos())], strings.ReplaceAll(before, "%d", id))
	f.after[f.offset(n.End())] = append(f.after[f.offset(n.End())], strings.ReplaceAll(after, "%d", id))
	return true
}

// wires says whether the function is given a manager, makes one, or hands one on to another function.
func (f *finder) wires(d *ast.FuncDecl) bool {
	found := hasManager(f.info.Defs[d.Name].Type())
	ast.Inspect(d, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			found = found || hasManager(f.info.TypeOf(call.Fun))
		}
		return !found
	})
	return found
}

// hasManager says whether a manager is a parameter or a result of the function.
func hasManager(function types.Type) bool {
	signature, ok := function.(*types.Signature)
	if !ok {
		return false
	}
	for _, tuple := range []*types.Tuple{signature.Params(), signature.Results()} {
		for v := range tuple.Variables() {
			if types.TypeString(types.Unalias(v.Type()), nil) == manager {
				return true
			}
		}
	}
	return false
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.CommClause:
		f.statements(n.Body)
	case *ast.IfStmt:
		if !f.passesError(n) {
			f.condition(n.Cond)
		}
	case *ast.SwitchStmt:
		for _, clause := range n.Body.List {
			for _, e := range clause.(*ast.CaseClause).List {
				if n.Tag == nil {
					f.condition(e)
				} else {
					f.value(e)
				}
			}
		}
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.AssignStmt:
		f.values(n.Rhs)
	case *ast.ReturnStmt:
		if !f.failure(n) {
			f.values(n.Results)
		}
	case *ast.ValueSpec:
		f.values(n.Values)
	case *ast.KeyValueExpr:
		if !f.value(n.Value) {
			f.field(n.Value)
		}
	case *ast.CompositeLit:
		f.values(n.Elts)
	case *ast.CallExpr:
		pkg, name := f.callee(n)
		if slices.Contains(quiet, pkg) {
			return false
		}
		if name != "make" && name != "len" {
			f.values(n.Args)
		}
	}
	return true
}

// passesError says whether the statement only hands on an error that somebody else found.
func (f *finder) passesError(n *ast.IfStmt) bool {
	cond, ok := n.Cond.(*ast.BinaryExpr)
	if !ok || cond.Op != token.NEQ || !isError(f.info.TypeOf(cond.X)) || n.Else != nil || len(n.Body.List) != 1 {
		return false
	}
	ret, ok := n.Body.List[0].(*ast.ReturnStmt)
	return ok && len(ret.Results) > 0
}

// failure says whether what is returned besides an error is nothing anybody uses.
func (f *finder) failure(n *ast.ReturnStmt) bool {
	last := len(n.Results) - 1
	if last < 1 || !isError(f.info.TypeOf(n.Results[last])) || f.errorCall(n.Results[last]) != nil {
		return false
	}
	return !slices.ContainsFunc(n.Results[:last], func(e ast.Expr) bool { return f.info.Types[e].Value == nil })
}

// condition is what a guard asks: the guard is dropped, or always applies.
func (f *finder) condition(e ast.Expr) {
	f.wrap(e, "never", "((", ") && !mutate__(%d))")
	f.wrap(e, "always", "((", ") || mutate__(%d))")
}

func (f *finder) binary(n *ast.BinaryExpr) {
	switch n.Op {
	case token.LAND, token.LOR:
		for _, e := range []ast.Expr{n.X, n.Y} {
			if inner, ok := ast.Unparen(e).(*ast.BinaryExpr); ok && inner.Op == n.Op {
				continue // its operands are left out one by one
			}
			if n.Op == token.LAND {
				f.wrap(e, "without", "((", ") || mutate__(%d))")
			} else {
				f.wrap(e, "without", "((", ") && !mutate__(%d))")
			}
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		if f.info.Types[n.X].Value != nil && f.info.Types[n.Y].Value != nil {
			return
		}
		name := map[token.Token]string{token.LSS: "lt", token.LEQ: "le", token.GTR: "gt", token.GEQ: "ge"}[n.Op]
		if f.wrap(n, "boundary", name+"__(%d, ", ")") {
			f.replaced[f.offset(n.OpPos)] = n.Op.String()
		}
	}
}

func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			call, ok := s.X.(*ast.CallExpr)
			if !ok {
				continue
			}
			if pkg, name := f.callee(call); slices.Contains(quiet, pkg) || slices.Contains(uninteresting, name) {
				continue
			}
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE || f.text(s.Lhs[0]) == "_" || len(s.Rhs) == 1 && f.errorCall(s.Rhs[0]) != nil {
				continue
			}
		case *ast.BranchStmt:
			if s.Tok != token.CONTINUE && s.Tok != token.BREAK || s.Label != nil {
				continue
			}
		case *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt:
		default:
			continue
		}
		f.wrap(s, "drop", "if !mutate__(%d) { ", " }")
	}
}

func (f *finder) values(list []ast.Expr) {
	for _, e := range list {
		f.value(e)
	}
}

// value is an expression that something is set to, that is given to a function, or returned.
// The result is whether there is a mistake in it.
func (f *finder) value(e ast.Expr) bool {
	t := f.info.Types[e]
	if t.Type == nil {
		return false
	}
	if f.errorCall(e) != nil {
		return f.wrap(e, "uncalled", "call__(%d, func() error { return ", " })")
	}
	basic, ok := t.Type.Underlying().(*types.Basic)
	if !ok {
		return false
	}
	if _, named := t.Type.(*types.Named); basic.Info()&types.IsBoolean != 0 && !named {
		b, ok := ast.Unparen(e).(*ast.BinaryExpr) // its operands are left out
		return ok && (b.Op == token.LAND || b.Op == token.LOR) || f.wrap(e, "negate", "((", ") != mutate__(%d))")
	}
	spelled, ok := f.spell(t.Type)
	if _, expression := e.(*ast.BinaryExpr); expression || t.Value == nil || !ok || spelled == "time.Duration" {
		return false
	}
	switch t.Value.Kind() {
	case constant.String:
		if s := constant.StringVal(t.Value); s != "" && !strings.Contains(s, " ") {
			return f.wrap(e, "constant", "text__["+spelled+"](%d, ", ")")
		}
	case constant.Int:
		if constant.Sign(t.Value) != 0 && basic.Info()&types.IsInteger != 0 {
			return f.wrap(e, "constant", "number__["+spelled+"](%d, ", ")")
		}
	}
	return false
}

// field is what a field or a key of a literal is set to.
func (f *finder) field(e ast.Expr) {
	t := f.info.Types[e]
	if literal, ok := e.(*ast.CompositeLit); ok && literal.Type == nil {
		return // its type is that of the elements around it
	}
	if _, function := t.Type.(*types.Signature); t.Type != nil && t.Value == nil && !t.IsNil() && !function {
		f.wrap(e, "omit", "zero__(%d, ", ")")
	}
}

// spell is how the type is written in this file, if it can be.
func (f *finder) spell(t types.Type) (string, bool) {
	ok := true
	spelled := types.TypeString(types.Default(t), func(p *types.Package) string {
		if p == f.pkg {
			return ""
		}
		name, known := f.imports[p.Path()]
		ok = ok && known
		return cmp.Or(name, p.Name())
	})
	return spelled, ok
}

// errorCall returns the call of a function that does something and returns only an error.
func (f *finder) errorCall(e ast.Expr) *ast.CallExpr {
	call, ok := e.(*ast.CallExpr)
	if !ok || !isError(f.info.TypeOf(call)) || f.info.Types[call.Fun].IsType() {
		return nil
	}
	if pkg, name := f.callee(call); slices.Contains(quiet, pkg) || pkg == "apierrors" || strings.HasPrefix(name, "New") {
		return nil // it only makes an error
	}
	return call
}

// callee is what is called: the last two words of its name.
func (f *finder) callee(call *ast.CallExpr) (qualifier, name string) {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return "", fun.Name
	case *ast.SelectorExpr:
		switch x := fun.X.(type) {
		case *ast.Ident:
			return x.Name, fun.Sel.Name
		case *ast.CallExpr: // klog.FromContext(ctx).Info()
			q, _ := f.callee(x)
			return q, fun.Sel.Name
		}
		return "", fun.Sel.Name
	}
	return "", ""
}

func isError(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}
