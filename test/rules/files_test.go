// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every source begins with this, after the interpreter of a script.
const (
	headerLicense   = "SPDX-License-Identifier: Apache-2.0"
	headerCopyright = "Copyright The Windows Instance API Authors."
)

// constraints are the lines that the generators of Kubernetes put before the header.
var constraints = regexp.MustCompile(`^(//go:build .*\n|// \+build .*\n)+\n`)

// checkHeader returns what is wrong with how the file begins.
func checkHeader(f sourceFile) []string {
	comment, content := "", f.content
	switch path.Ext(f.path) {
	case ".go":
		comment = "// "
	case ".sh":
		comment = "# "
		if first, rest, _ := strings.Cut(content, "\n"); strings.HasPrefix(first, "#!") {
			content = rest
		}
	default:
		return nil
	}
	if f.generated() {
		content = constraints.ReplaceAllString(content, "")
	}
	want := comment + headerLicense + "\n" + comment + headerCopyright + "\n"
	if !strings.HasPrefix(content, want) {
		return []string{fmt.Sprintf("%s does not begin with:\n%s", f.path, want)}
	}
	return nil
}

// word is a text that must not be in some files.
type word struct {
	pattern *regexp.Regexp
	in      func(sourceFile) bool
	why     string
}

// literal spells a word in parts, so that this file does not break its own rules.
func literal(parts ...string) *regexp.Regexp {
	return regexp.MustCompile(`\b` + strings.Join(parts, "") + `\b`)
}

func source(f sourceFile) bool {
	return !f.generated() && slices.Contains([]string{".go", ".sh", ".yaml"}, path.Ext(f.path))
}

// prose is what users and the next developer read: the product, with its messages and
// comments, manifests, scripts, and the documents, but for those that quote words which are
// not said any more.
func prose(f sourceFile) bool {
	switch path.Ext(f.path) {
	case ".md":
		quotes := f.path == "docs/style.md" || f.path == "docs/decisions/0017-names-that-changed.md"
		return !f.generated() && !quotes && !under(f.path, "test")
	case ".yaml":
		return under(f.path, "artifacts")
	case ".sh":
		return under(f.path, "hack")
	}
	return f.product()
}

func everywhere(f sourceFile) bool { return !f.generated() }

// sshOutsideThePool is product code outside of the one package that dials hosts.
func sshOutsideThePool(f sourceFile) bool { return f.product() && !under(f.path, "pkg/host/ssh") }

var words = []word{
	{regexp.MustCompile(`(?i)\bsha` + `ll\b`), prose, "docs/style.md: say must, is, will, or the desired configuration"},
	{regexp.MustCompile(`(?i)\bpeer` + ` operator`), prose, "docs/style.md: say WMCO"},
	{regexp.MustCompile(`(^|[ (])([Hh]` + `e|[Hh]` + `is|[Hh]` + `im|[Hh]` + `imself)([ ,.:;)]|$)`), prose, "docs/style.md: say they, their, them"},
	{regexp.MustCompile(`\b(happen` + `ing|bl` + `ip)\b`), prose, "docs/style.md: say event, transient"},
	{regexp.MustCompile(`(?i)\b(an` + `ew|me` + `nd(s|ed|ing)?|puts? ri` + `ght)\b`), prose, "docs/style.md: say again, fix, repair"},
	{literal("TO", "DO"), sourceFile.product, "finish it, or leave it out and say so in docs"},
	{literal("FIX", "ME"), sourceFile.product, "fix it"},
	{literal("XX", "X"), sourceFile.product, "say what is the matter, or change it"},
	{literal("(?i)not ", "implemented"), sourceFile.product, "what is not there must not be offered"},
	{literal("(?i)simul", "ate[sd]?"), sourceFile.product, "stand-ins live under test"},
	{literal("(?i)st", "ubs?"), sourceFile.product, "stand-ins live under test"},
	{regexp.MustCompile("Insecure" + "IgnoreHostKey"), source, "host keys are verified, in tests too"},
	{regexp.MustCompile("Insecure" + "SkipVerify"), source, "certificates are verified, in tests too"},
	{regexp.MustCompile("(?i)insecure" + "-?skip-?tls-?verify"), source, "certificates are verified, in tests too"},
	{regexp.MustCompile(`\bssh\.(Dial|NewClient|NewClient` + `Conn)\(`), sshOutsideThePool, "only pkg/host/ssh dials hosts, because it verifies host keys"},
	{regexp.MustCompile("(^|[^A-Za-z0-9_.-])/" + "work/"), everywhere, "no paths of one machine"},
	{regexp.MustCompile(`(^|[^A-Za-z0-9_.-])/(home|Us` + `ers)/[a-z]`), everywhere, "no paths of one machine"},
	{regexp.MustCompile(`/ro` + `ot/(go|\.cache)\b`), everywhere, "no paths of one machine"},
	{regexp.MustCompile("/t" + `mp/[A-Za-z]`), sourceFile.product, "os.MkdirTemp knows where"},
}

// withoutEscapes has a space in place of each escape of a string.
var withoutEscapes = strings.NewReplacer(`\n`, " ", `\t`, " ", `\r`, " ")

// checkWords returns the lines that hold what must not be in the file.
func checkWords(f sourceFile) []string {
	var problems []string
	for _, w := range words {
		if !w.in(f) || !w.pattern.MatchString(withoutEscapes.Replace(f.content)) {
			continue
		}
		for i, line := range strings.Split(f.content, "\n") {
			// The letter of an escape is no part of the word after it.
			if found := w.pattern.FindString(withoutEscapes.Replace(line)); found != "" {
				problems = append(problems, fmt.Sprintf("%s:%d: %q: %s", f.path, i+1, strings.TrimSpace(found), w.why))
			}
		}
	}
	return problems
}

// goDirectory is what the Go files of one directory say of it.
type goDirectory struct {
	packageName string
	doc         string // the longest package comment of its files
}

// checkPackageDocs returns the packages without a comment that says what they are for.
func checkPackageDocs(files []sourceFile) []string {
	directories := map[string]goDirectory{}
	var problems []string
	for _, f := range files {
		if path.Ext(f.path) != ".go" || f.generated() || strings.Contains(f.path, "/testdata/") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.content, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		dir := path.Dir(f.path)
		d := directories[dir]
		if !strings.HasSuffix(f.path, "_test.go") || d.packageName == "" {
			d.packageName = strings.TrimSuffix(parsed.Name.Name, "_test")
		}
		if doc := docText(parsed.Doc); len(doc) > len(d.doc) {
			d.doc = doc
		}
		directories[dir] = d
	}
	for _, dir := range slices.Sorted(maps.Keys(directories)) {
		d := directories[dir]
		switch {
		case d.doc == "":
			problems = append(problems, fmt.Sprintf("package %s in %s has no doc comment", d.packageName, dir))
		case d.packageName != "main" && !strings.HasPrefix(d.doc, "Package "+d.packageName+" "):
			problems = append(problems, fmt.Sprintf("the doc comment of package %s in %s does not begin with \"Package %s \"", d.packageName, dir, d.packageName))
		}
	}
	return problems
}

// docText is the text of a comment without its directives.
func docText(comment *ast.CommentGroup) string { return strings.TrimSpace(comment.Text()) }

func TestFiles(t *testing.T) {
	files := readTree(t)
	for _, check := range []struct {
		name  string
		check func(sourceFile) []string
	}{
		{"headers", checkHeader},
		{"words", checkWords},
	} {
		t.Run(check.name, func(t *testing.T) {
			for _, f := range files {
				for _, problem := range check.check(f) {
					t.Error(problem)
				}
			}
		})
	}
	t.Run("package docs", func(t *testing.T) {
		for _, problem := range checkPackageDocs(files) {
			t.Error(problem)
		}
	})
}

func TestCheckHeader(t *testing.T) {
	goHeader := "// " + headerLicense + "\n// " + headerCopyright + "\n"
	shHeader := "# " + headerLicense + "\n# " + headerCopyright + "\n"
	tests := []struct {
		name, path, content string
		want                bool
	}{
		{name: "go", path: "pkg/a/a.go", content: goHeader + "\npackage a\n", want: true},
		{name: "go without", path: "pkg/a/a.go", content: "package a\n"},
		{name: "go with one line", path: "pkg/a/a.go", content: "// " + headerLicense + "\n\npackage a\n"},
		{name: "go, not at the beginning", path: "pkg/a/a.go", content: "\n" + goHeader},
		{name: "generated", path: "pkg/a/zz_generated.a.go", content: "//go:build !skip\n\n" + goHeader, want: true},
		{name: "script", path: "hack/a.sh", content: "#!/bin/sh\n" + shHeader, want: true},
		{name: "script without", path: "hack/a.sh", content: "#!/bin/sh\n"},
		{name: "sourced script", path: "hack/lib.sh", content: shHeader, want: true},
		{name: "document", path: "docs/a.md", content: "# A\n", want: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if problems := checkHeader(sourceFile{tt.path, tt.content}); (len(problems) == 0) != tt.want {
				t.Errorf("got %q, want it accepted: %v", problems, tt.want)
			}
		})
	}
}

func TestCheckWords(t *testing.T) {
	tests := []struct {
		name, path, content string
		want                []string // where, and which
	}{
		{name: "nothing", path: "pkg/a/a.go", content: "// It does what it says.\n"},
		{name: "unfinished product", path: "pkg/a/a.go", content: "\n// TO" + "DO: more\n", want: []string{"pkg/a/a.go:2"}},
		{name: "unfinished test", path: "pkg/a/a_test.go", content: "// TO" + "DO: more\n"},
		{name: "part of a word", path: "pkg/a/a.go", content: "// TO" + "DOS, st" + "ubborn, to" + "do\n"},
		{name: "a word that readers do not search for", path: "pkg/a/a.go", content: "// what hosts sha" + "ll be\n", want: []string{"pkg/a/a.go:1"}},
		{name: "a word of poets", path: "docs/a.md", content: "it begins an" + "ew\n", want: []string{"docs/a.md:1"}},
		{name: "a person is they", path: "docs/a.md", content: "who reads h" + "is log\n", want: []string{"docs/a.md:1"}},
		{name: "a person in a manifest", path: "artifacts/a.yaml", content: "# what h" + "e may do\n", want: []string{"artifacts/a.yaml:1"}},
		{name: "a person in a script", path: "hack/a.sh", content: "# h" + "is builds\n", want: []string{"hack/a.sh:1"}},
		{name: "the page about words", path: "docs/style.md", content: "sha" + "ll\n"},
		{name: "words of a test", path: "test/a_test.go", content: "// it sha" + "ll\n"},
		{name: "generated", path: "pkg/a/zz_generated.a.go", content: "// TO" + "DO\n"},
		{name: "broken", path: "cmd/a/main.go", content: "// FIX" + "ME\n", want: []string{"cmd/a/main.go:1"}},
		{name: "stand-in in product", path: "pkg/a/a.go", content: "// a st" + "ub\n", want: []string{"pkg/a/a.go:1"}},
		{name: "any host key in a test", path: "test/a_test.go", content: "ssh.Insecure" + "IgnoreHostKey()\n", want: []string{"test/a_test.go:1"}},
		{name: "any certificate in a test", path: "pkg/a/a_test.go", content: "Insecure" + "SkipVerify: true\n", want: []string{"pkg/a/a_test.go:1"}},
		{name: "any certificate in a manifest", path: "artifacts/a.yaml", content: "insecure" + "SkipTLSVerify: true\n", want: []string{"artifacts/a.yaml:1"}},
		{name: "any certificate in a script", path: "hack/a.sh", content: "kubectl --insecure" + "-skip-tls-verify\n", want: []string{"hack/a.sh:1"}},
		{name: "the word in a document", path: "docs/a.md", content: "never set insecure" + "SkipTLSVerify\n"},
		{name: "dials a host", path: "pkg/host/a.go", content: "ssh.Dial" + "(\"tcp\")\n", want: []string{"pkg/host/a.go:1"}},
		{name: "the pool dials", path: "pkg/host/ssh/a.go", content: "ssh.NewClientConn" + "(c)\n"},
		{name: "machine path", path: "docs/a.md", content: "cd /" + "work/main\n", want: []string{"docs/a.md:1"}},
		{name: "a path that ends alike", path: "docs/a.md", content: "cd test/" + "work/main and C:/" + "works/\n"},
		{name: "home directory", path: "hack/a.sh", content: "cd /home" + "/jane/go\n", want: []string{"hack/a.sh:1"}},
		{name: "temporary directory", path: "pkg/a/a.go", content: "\"/t" + "mp/socket\"\n", want: []string{"pkg/a/a.go:1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, problem := range checkWords(sourceFile{tt.path, tt.content}) {
				where, _, _ := strings.Cut(problem, ": ")
				got = append(got, where)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckPackageDocs(t *testing.T) {
	tests := []struct {
		name  string
		files []sourceFile
		want  int // how many packages are wrong
	}{
		{name: "in one of the files", files: []sourceFile{
			{"pkg/a/a.go", "package a\n"}, {"pkg/a/doc.go", "// Package a is an example.\npackage a\n"},
		}},
		{name: "none", files: []sourceFile{{"pkg/a/a.go", "package a\n"}}, want: 1},
		{name: "a directive is no comment", files: []sourceFile{{"pkg/a/a.go", "//go:build linux\n\npackage a\n"}}, want: 1},
		{name: "header is no comment", files: []sourceFile{{"pkg/a/a.go", "// A license.\n\npackage a\n"}}, want: 1},
		{name: "other beginning", files: []sourceFile{{"pkg/a/a.go", "// This is a.\npackage a\n"}}, want: 1},
		{name: "program", files: []sourceFile{{"cmd/a/main.go", "// a does it.\npackage main\n"}}},
		{name: "program without", files: []sourceFile{{"cmd/a/main.go", "package main\n"}}, want: 1},
		{name: "external tests", files: []sourceFile{
			{"pkg/a/a.go", "// Package a is an example.\npackage a\n"}, {"pkg/a/a_test.go", "package a_test\n"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if problems := checkPackageDocs(tt.files); len(problems) != tt.want {
				t.Errorf("got %q, want %d problems", problems, tt.want)
			}
		})
	}
}
