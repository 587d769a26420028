// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/test/output"
	"github.com/openshift/windows-instance-api/test/system"
)

// section returns the commands of a section of the user guide, or of a part of one that has a heading of its own.
func section(t *testing.T, heading string) []string {
	t.Helper()
	var commands []string
	for _, b := range blocksBelow(t, heading) {
		if b.language == "" {
			commands = append(commands, strings.Split(strings.TrimSpace(continuation.ReplaceAllString(b.text, "")), "\n")...)
		}
	}
	return commands
}

// manifestBelow returns the first one of a section of the user guide.
func manifestBelow(t *testing.T, heading string) string {
	t.Helper()
	for _, b := range blocksBelow(t, heading) {
		if b.language == "yaml" {
			return b.text
		}
	}
	t.Fatalf("section %s of the user guide has no manifest", heading)
	return ""
}

// blocksBelow returns the blocks of a section of the user guide.
func blocksBelow(t *testing.T, heading string) []block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "user-guide.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "# "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n#")
	if !found {
		t.Fatalf("the user guide has no section %s", heading)
	}
	return blocksOf(section)
}

// console returns the commands of a section that are shown with a prompt, each with its following lines.
func console(t *testing.T, heading string) []string {
	t.Helper()
	var commands []string
	for _, b := range blocksBelow(t, heading) {
		for line := range strings.Lines(continuation.ReplaceAllString(b.text, "")) {
			if command, shown := strings.CutPrefix(strings.TrimSpace(line), "$ "); shown {
				commands = append(commands, command)
			}
		}
	}
	if len(commands) == 0 {
		t.Fatalf("the user guide shows no commands in a section %s", heading)
	}
	return commands
}

// installed matches commands that install our programs.
var installed = regexp.MustCompile(`^kubectl apply -k artifacts/(base|openshift)$`)

// guided runs commands of the user guide on a cluster.
type guided struct {
	*system.System
	// dir is where the reader is.
	dir string
	// names are those of hosts, pools and namespaces in commands of kubectl, each followed by what it is here. Nil: as in the guide.
	names *strings.Replacer
	// ran are the commands that were run.
	ran []string
}

// run runs the commands that begin with one of these texts.
func (g *guided) run(t *testing.T, commands []string, begin ...string) {
	t.Helper()
	ran := 0
	for _, command := range commands {
		if !slices.ContainsFunc(begin, func(b string) bool { return strings.HasPrefix(command, b) }) {
			continue
		}
		ran++
		if out, err := g.try(t, command); err != nil {
			t.Fatalf("%s\n%v\n%s", command, err, out)
		}
	}
	if ran != len(begin) {
		t.Fatalf("%d commands begin with %q", ran, begin)
	}
}

// only is the one command that begins with a text.
func only(t *testing.T, commands []string, begin string) string {
	t.Helper()
	found := slices.DeleteFunc(slices.Clone(commands), func(c string) bool { return !strings.HasPrefix(c, begin) })
	if len(found) != 1 {
		t.Fatalf("the user guide has %q, of which one should begin with %q", commands, begin)
	}
	return found[0]
}

// try runs a command, and returns what it has printed.
func (g *guided) try(t *testing.T, command string) (string, error) {
	t.Helper()
	return g.start(t, command)()
}

// start begins to run a command. end waits for its end, and returns what it has printed.
func (g *guided) start(t *testing.T, command string) (end func() (string, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	cmd := g.command(ctx, t, command)
	var out output.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() (string, error) {
		defer cancel()
		err := cmd.Wait()
		return out.String(), err
	}
}

// watch runs a command that does not end, until it has printed something.
func (g *guided) watch(t *testing.T, command string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	mustSaySomething(t, g.command(ctx, t, command))
}

// command is a command of the reader, who has run it from then on.
func (g *guided) command(ctx context.Context, t *testing.T, command string) *exec.Cmd {
	t.Helper()
	g.ran = append(g.ran, command)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	// Without kubelets the Service has no pods, so it is that of the system.
	command = installed.ReplaceAllLiteralString(command, "kubectl apply -k artifacts/base")
	command = strings.ReplaceAll(command, "artifacts/base", filepath.Join(g.Dir(), "overlay"))
	command = strings.ReplaceAll(command, " artifacts/", " "+root+"/artifacts/")
	if g.names != nil && strings.HasPrefix(command, "kubectl ") {
		command = g.names.Replace(command)
	}
	return shellOf(ctx, g.System, g.dir, "oc() { kubectl \"$@\"; }\n"+command)
}

// key is the private key in a file that the reader has made.
func (g *guided) key(t *testing.T, name string) ssh.Signer {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// mustHaveRun fails the test if a command was not run.
func (g *guided) mustHaveRun(t *testing.T, commands []string) {
	t.Helper()
	for _, command := range commands {
		if !slices.Contains(g.ran, command) {
			t.Errorf("nothing has run the command of the user guide %s", command)
		}
	}
}
