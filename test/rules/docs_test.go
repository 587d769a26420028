// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// conditions is where the types and reasons of conditions are.
const conditions = "pkg/apis/windows/v1alpha1/conditions.go"

// constants returns the values of the string constants of a Go file whose names
// have one of the prefixes.
func constants(f sourceFile, prefixes ...string) ([]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.content, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var values []string
	for _, declaration := range parsed.Decls {
		block, ok := declaration.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		for _, spec := range block.Specs {
			value := spec.(*ast.ValueSpec)
			for i, name := range value.Names {
				if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name.Name, p) }) || i >= len(value.Values) {
					continue
				}
				text, err := strconv.Unquote(value.Values[i].(*ast.BasicLit).Value)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name.Name, err)
				}
				values = append(values, text)
			}
		}
	}
	return values, nil
}

// undocumented returns those of the words that no heading and no first cell of a
// table of the document has.
func undocumented(document string, words []string) []string {
	var missing []string
	for _, w := range words {
		pattern := regexp.MustCompile(`(?m)^(#+ .*|\| *)` + "`" + regexp.QuoteMeta(w) + "`")
		if !pattern.MatchString(document) {
			missing = append(missing, w)
		}
	}
	return missing
}

// statuses matches the conditions that the comment of a reason names, with their status,
// as in "(SourceSynced=False, Degraded=True)".
var statuses = regexp.MustCompile(`(\w+)=(True|False|Unknown)\b`)

// reasonRow is a reason that a condition can have, according to the comment of its constant.
type reasonRow struct{ condition, status, reason string }

// reasonRows returns the rows that the section of each condition must have.
func reasonRows(f sourceFile) ([]reasonRow, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var rows []reasonRow
	ast.Inspect(parsed, func(n ast.Node) bool {
		value, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(value.Names[0].Name, "Reason") {
			return true
		}
		reason, _ := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
		for _, match := range statuses.FindAllStringSubmatch(value.Doc.Text(), -1) {
			rows = append(rows, reasonRow{match[1], match[2], reason})
		}
		return true
	})
	return rows, nil
}

// missingRows returns the rows that the sections of the document do not have.
func missingRows(document string, rows []reasonRow) []reasonRow {
	sections := map[string]string{}
	for _, section := range regexp.MustCompile(`(?m)^#+ `).Split(document, -1) {
		title, rest, _ := strings.Cut(section, "\n")
		sections[strings.Trim(title, "`")] = rest
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r reasonRow) bool {
		pattern := regexp.MustCompile(`(?m)^\|[^|]*` + "`" + regexp.QuoteMeta(r.reason) + "`" + `[^|]*\|[^|]*\b` + r.status + `\b`)
		return pattern.MatchString(sections[r.condition])
	})
}

// TestConditionsDocumented keeps docs/troubleshooting.md complete: whoever sees a
// condition or a reason finds there what to do.
func TestConditionsDocumented(t *testing.T) {
	read := func(name string) sourceFile {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return sourceFile{name, string(content)}
	}
	source, document := read(conditions), read("docs/troubleshooting.md").content
	values, err := constants(source, "Condition", "Reason")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := reasonRows(source)
	if err != nil {
		t.Fatal(err)
	}
	if len(values) < 20 || len(rows) < 20 {
		t.Fatalf("found %d conditions and reasons, and %d rows for them, which cannot be all", len(values), len(rows))
	}
	for _, missing := range undocumented(document, values) {
		t.Errorf("docs/troubleshooting.md has no heading and no row for %s of %s", missing, conditions)
	}
	for _, missing := range missingRows(document, rows) {
		t.Errorf("docs/troubleshooting.md: the section of condition %s has no row for reason %s with status %s", missing.condition, missing.reason, missing.status)
	}
}

// TestInstallations: what README shows to install on OpenShift is what the user guide says, whose commands are run there.
func TestInstallations(t *testing.T) {
	commands := func(name, heading string) []string {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		_, section, found := strings.Cut(string(content), "# "+heading+"\n")
		section, _, _ = strings.Cut(section, "\n#")
		var commands []string
		for i, block := range strings.Split(section, "```\n") {
			if i%2 == 1 {
				commands = append(commands, strings.Split(strings.TrimSpace(block), "\n")...)
			}
		}
		if !found || len(commands) == 0 {
			t.Fatalf("%s has no commands below %s", name, heading)
		}
		return commands
	}
	guide := commands("docs/user-guide.md", "On OpenShift")
	for _, command := range commands("README.md", "Install it") {
		if !slices.Contains(guide, command) {
			t.Errorf("the user guide does not have the command of README.md %s", command)
		}
	}
}

// link matches the target of a link in Markdown.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// heading is one of a document.
type heading struct {
	level int
	title string
}

// headings returns those of a document in their order.
func headings(document string) []heading {
	var found []heading
	inBlock := false
	for line := range strings.Lines(document) {
		if strings.HasPrefix(line, "```") {
			inBlock = !inBlock
		}
		marks, title, isHeading := strings.Cut(line, " ")
		if isHeading && !inBlock && marks != "" && strings.Trim(marks, "#") == "" {
			found = append(found, heading{len(marks), strings.TrimSpace(title)})
		}
	}
	return found
}

// notInAnchors are the characters that GitHub leaves out of the anchor of a heading.
var notInAnchors = regexp.MustCompile(`[^\w\- ]`)

// anchor is that of a heading.
func (h heading) anchor() string {
	return strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(h.title), ""), " ", "-")
}

// checkLinks returns the links to files, and to headings of documents, that are not there. exists says whether a file is,
// contents are those of the documents.
func checkLinks(f sourceFile, exists func(name string) bool, contents map[string]string) []string {
	var problems []string
	for _, match := range link.FindAllStringSubmatch(f.content, -1) {
		target, anchor, _ := strings.Cut(match[1], "#")
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		name := f.path
		if target != "" {
			name = path.Join(path.Dir(f.path), target)
		}
		document, isDocument := contents[name]
		if !isDocument && !exists(name) ||
			isDocument && anchor != "" && !slices.ContainsFunc(headings(document), func(h heading) bool { return h.anchor() == anchor }) {
			problems = append(problems, fmt.Sprintf("%s links to %s, which is not there", f.path, match[1]))
		}
	}
	return problems
}

// TestContentsOfGuide: the list at the top of the user guide has its sections, and theirs, in their order.
func TestContentsOfGuide(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "docs/user-guide.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, h := range headings(string(content)) {
		if h.level == 2 || h.level == 3 {
			fmt.Fprintf(&want, "%s- [%s](#%s)\n", strings.Repeat("  ", h.level-2), h.title, h.anchor())
		}
	}
	before, _, _ := strings.Cut(string(content), "\n## ")
	_, got, _ := strings.Cut(before, "\n- ")
	if diff := cmp.Diff(want.String(), "- "+got); diff != "" {
		t.Errorf("list of sections in docs/user-guide.md (-want +got):\n%s", diff)
	}
}

func TestLinks(t *testing.T) {
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return err == nil
	}
	files := slices.DeleteFunc(readTree(t), func(f sourceFile) bool { return path.Ext(f.path) != ".md" })
	contents := map[string]string{}
	for _, f := range files {
		contents[f.path] = f.content
	}
	for _, f := range files {
		for _, problem := range checkLinks(f, exists, contents) {
			t.Error(problem)
		}
	}
}

func TestCheckLinks(t *testing.T) {
	exists := func(name string) bool { return name == "hack/a.sh" }
	contents := map[string]string{"docs/testing.md": "# Tests\n```\n# Tears\n```\n### The `tiers`, by cost\n"}
	tests := []struct {
		name, content string
		want          []string
	}{
		{name: "there", content: "see [tests](testing.md#the-tiers-by-cost), [again](../docs/testing.md) and [script](../hack/a.sh)"},
		{name: "not there", content: "see [tests](test.md)", want: []string{"docs/a.md links to test.md, which is not there"}},
		{name: "no such heading", content: "see [tests](testing.md#tears), [above](#top)", want: []string{
			"docs/a.md links to testing.md#tears, which is not there", "docs/a.md links to #top, which is not there",
		}},
		{name: "here", content: "# Top\n\nsee [above](#top)"},
		{name: "elsewhere", content: "see [site](https://example.com/x.md)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			contents["docs/a.md"] = tt.content
			if diff := cmp.Diff(tt.want, checkLinks(sourceFile{"docs/a.md", tt.content}, exists, contents)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUndocumented(t *testing.T) {
	document := "## Something\n\n### `Reachable`\n\n| `NotSSH` | text |\n|`NotTried`|\n\nIn passing: `FirstUse`.\n"
	got := undocumented(document, []string{"Reachable", "NotSSH", "NotTried", "FirstUse", "SSH"})
	if diff := cmp.Diff([]string{"FirstUse", "SSH"}, got); diff != "" {
		t.Errorf("undocumented words (-want +got):\n%s", diff)
	}
}

func TestConstants(t *testing.T) {
	f := sourceFile{"a.go", "package a\nconst (\n\tReasonA = \"A\"\n\tOther = \"B\"\n\tConditionC = \"C\"\n)\nvar ReasonD = \"D\"\n"}
	got, err := constants(f, "Reason", "Condition")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"A", "C"}, got); diff != "" {
		t.Errorf("constants (-want +got):\n%s", diff)
	}
}

func TestMissingRows(t *testing.T) {
	f := sourceFile{"a.go", "package a\nconst (\n\t// ReasonA (Ready=True, Reachable=False): text.\n\tReasonA = \"A\"\n\t// ReasonB: any.\n\tReasonB = \"B\"\n)\n"}
	rows, err := reasonRows(f)
	if err != nil {
		t.Fatal(err)
	}
	document := "### `Ready`\n\n| `B`, `A` | True | text |\n\n### `Reachable`\n\n| `A` | True | text: False |\n"
	want := []reasonRow{{"Reachable", "False", "A"}}
	if diff := cmp.Diff(want, missingRows(document, rows), cmp.AllowUnexported(reasonRow{})); diff != "" {
		t.Errorf("missing rows (-want +got):\n%s", diff)
	}
}
