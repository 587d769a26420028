// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rules

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// packageTree reads the tree of packages in docs/architecture.md: what is said of each path. Two
// blanks of indentation are one level; what follows two blanks or more is the description, which
// further lines continue.
func packageTree(document string) map[string]string {
	_, tree, _ := strings.Cut(document, "\n## Packages\n")
	_, tree, _ = strings.Cut(tree, "```text\n")
	tree, _, _ = strings.Cut(tree, "```")
	said := map[string]string{}
	var above, last []string
	for line := range strings.Lines(tree) {
		text := strings.TrimSpace(line)
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		if text == "" {
			continue
		}
		if depth > len(above) { // more about the ones before
			for _, p := range last {
				said[p] += " " + text
			}
			continue
		}
		names, description, _ := strings.Cut(text, "  ")
		above, last = above[:depth], nil
		for name := range strings.SplitSeq(names, ", ") {
			p := path.Join(path.Join(above...), name)
			said[p] = strings.TrimSpace(description)
			last = append(last, p)
		}
		above = append(above, strings.TrimSuffix(names, "/"))
	}
	return said
}

// unnamed returns the packages that the tree does not name: neither as a path, nor in what is
// said of the nearest path above.
func unnamed(packages []string, said map[string]string) []string {
	var missing []string
	for _, p := range packages {
		above := p
		for said[above] == "" && above != "." {
			above = path.Dir(above)
		}
		word := regexp.MustCompile(`\b` + regexp.QuoteMeta(path.Base(p)) + `\b`)
		if above != p && !word.MatchString(said[above]) {
			missing = append(missing, p)
		}
	}
	return missing
}

// TestArchitectureNamesPackages keeps the tree of packages in docs/architecture.md complete, and
// the files that it names there.
func TestArchitectureNamesPackages(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	document := string(content)
	said := packageTree(document)
	var packages []string
	for _, goos := range platforms {
		for _, p := range listPackages(t, goos) {
			if under(p.path, "pkg") && !under(p.path, "pkg/generated") {
				packages = append(packages, p.path)
			}
		}
	}
	slices.Sort(packages)
	for _, p := range unnamed(slices.Compact(packages), said) {
		t.Errorf("docs/architecture.md does not name %s: add it to the tree of packages", p)
	}
	named := regexp.MustCompile("`((?:pkg|cmd|test|hack)/[^` ]+)`").FindAllStringSubmatch(document, -1)
	for p := range said {
		if !strings.Contains(p, "*") {
			named = append(named, []string{"", p})
		}
	}
	for _, match := range named {
		if found, err := filepath.Glob(filepath.Join(root, match[1])); err != nil || len(found) == 0 {
			t.Errorf("docs/architecture.md names %s, which is not there", match[1])
		}
	}
}

func TestPackageTree(t *testing.T) {
	document := "\n## Packages\n\nThe tree:\n\n```text\ncmd/*     wiring\npkg/\n  a       one; sub: more\n          of it\n    b, c  two\n  d/e     three\n```\n"
	want := map[string]string{
		"cmd/*": "wiring", "pkg": "", "pkg/a": "one; sub: more of it", "pkg/a/b": "two", "pkg/a/c": "two", "pkg/d/e": "three",
	}
	got := packageTree(document)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	packages := []string{"pkg/a", "pkg/a/sub", "pkg/a/b", "pkg/a/x", "pkg/d/e", "pkg/f"}
	if missing := fmt.Sprint(unnamed(packages, got)); missing != "[pkg/a/x pkg/f]" {
		t.Errorf("not named are %s", missing)
	}
}
