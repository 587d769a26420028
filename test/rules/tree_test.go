// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rules

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the checkout as seen from the directory in which the tests of this
// package run.
const root = "../.."

// sourceFile is a text file of the checkout.
type sourceFile struct {
	path    string // below the root, with slashes
	content string
}

// generated says whether a generator wrote the file. Such a file is not read by
// people, and its words are not ours.
func (f sourceFile) generated() bool {
	return under(f.path, "pkg/generated") || strings.HasPrefix(filepath.Base(f.path), "zz_generated.")
}

// test says whether the file is part of tests only.
func (f sourceFile) test() bool {
	return under(f.path, "test") || strings.HasSuffix(f.path, "_test.go") || strings.Contains(f.path, "/testdata/")
}

// product says whether the file becomes part of a program of ours.
func (f sourceFile) product() bool {
	return underAny(f.path, []string{"cmd", "pkg"}) && !f.test() && !f.generated()
}

// textFiles are the endings, and names, of the files that the rules read.
var textFiles = []string{".go", ".sh", ".yaml", ".yml", ".md", ".mod", ".txt", ".list", "Makefile", "Dockerfile", ".ci/run"}

// readTree reads all text files of the checkout, tracked by git or about to be.
func readTree(t *testing.T) []sourceFile {
	t.Helper()
	var files []sourceFile
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		name := strings.TrimPrefix(path, root+"/")
		if entry.IsDir() {
			if slices.Contains([]string{".git", "bin", "_output"}, name) {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.ContainsFunc(textFiles, func(end string) bool { return strings.HasSuffix(name, end) }) {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files = append(files, sourceFile{path: name, content: string(content)})
		return nil
	})
	if err != nil {
		t.Fatalf("reading the checkout: %v", err)
	}
	if len(files) < 100 {
		t.Fatalf("found %d files, which cannot be all", len(files))
	}
	return files
}
