// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// module is one with a package whose tests kill what is marked so and nothing else.
var module = map[string]string{
	"go.mod": "module example.com/guards\n\ngo 1.26\n",
	"guards.go": `package guards

import (
	"errors"
	"fmt"
)

type Verb string

const Abandon Verb = "abandon"

type Server struct {
	Leads  bool
	Asked  Verb
	Writes int
}

func (s *Server) write(n int) error {
	if n < 0 {
		return errors.New("less than nothing")
	}
	s.Writes += n
	return nil
}

func (s *Server) ask(v Verb) bool { s.Asked = v; return true }

func (s *Server) Do(n int) error {
	if !s.Leads || n > 9 {
		return fmt.Errorf("not now")
	}
	if !s.ask(Abandon) {
		return errors.New("refused")
	}
	if err := s.write(n); err != nil {
		return err
	}
	for i := range 2 {
		if i == 0 {
			continue
		}
		s.note(i)
	}
	return nil
}

func (s *Server) note(int) {}
`,
	"guards_test.go": `package guards

import "testing"

func TestLeads(t *testing.T) {
	if err := (&Server{}).Do(1); err == nil {
		t.Error("wrote without leading")
	}
	s := &Server{Leads: true}
	if err := s.Do(1); err != nil || s.Writes != 1 {
		t.Error(err, s.Writes)
	}
}

func TestMost(t *testing.T) {
	if (&Server{Leads: true}).Do(9) != nil || (&Server{Leads: true}).Do(10) == nil {
		t.Error("9 is the most")
	}
}
`,
}

func TestMutate(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range module {
		write(name, text)
	}
	write("argued.txt", "# none\n")
	t.Chdir(dir)
	mutate := func(arguments ...string) (string, error) {
		t.Helper()
		var out strings.Builder
		err := run(t.Context(), append([]string{"-argued", "argued.txt", "-out", "tables"}, append(arguments, ".")...), &out)
		return out.String(), err
	}

	got, err := mutate()
	want := `guards.go:19: unreached | Server.write: never: n < 0
guards.go:19: unreached | Server.write: boundary: n < 0
guards.go:26: survived | Server.ask: drop: s.Asked = v
guards.go:32: unreached | Server.Do: never: !s.ask(Abandon)
guards.go:32: survived | Server.Do: constant: Abandon
guards.go:39: survived | Server.Do: never: i == 0
guards.go:39: survived | Server.Do: always: i == 0
guards.go:40: survived | Server.Do: drop: continue
guards.go:42: survived | Server.Do: drop: s.note(i)
example.com/guards: 52.6% killed (10 of 19), 6 survived, 3 unreached, 0 argued, 0 not compiling
all: 52.6% killed (10 of 19)
`
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v: %s", err, d)
	}

	got, err = mutate("-every", "7")
	if want := "all: 66.7% killed (2 of 3)\n"; err != nil || !strings.HasSuffix(got, want) {
		t.Errorf("each seventh: %v, got %s, want %s", err, got, want)
	}

	// Another test kills three. What was killed before is not tried again.
	write("asked_test.go", `package guards

import "testing"

func TestAsked(t *testing.T) {
	s := &Server{Leads: true}
	if err := s.Do(0); err != nil || s.Asked != "abandon" {
		t.Error(err, s.Asked)
	}
	if s.Do(-1) == nil {
		t.Error("wrote less than nothing")
	}
}
`)
	write("argued.txt", `# The loop does nothing.
guards.go | Server.Do: never: i == 0 | no effect
guards.go | Server.Do: always: i == 0 | no effect
guards.go | Server.Do: drop: continue | no effect
guards.go | Server.Do: drop: s.note(i) | no effect
`)
	got, err = mutate("-minimum", "95")
	want = `guards.go:32: unreached | Server.Do: never: !s.ask(Abandon)
example.com/guards: 93.3% killed (14 of 15), 0 survived, 1 unreached, 4 argued, 0 not compiling
all: 93.3% killed (14 of 15)
`
	if d := cmp.Diff(want, got); d != "" || err == nil || err.Error() != "less than 95% killed" {
		t.Errorf("%v: %s", err, d)
	}

	write("argued.txt", "guards.go | Server.Do: never: !s.Leads | no effect\n")
	if got, err := mutate(); err == nil || !strings.Contains(err.Error(), "remove the line") {
		t.Errorf("a mutant that is killed is argued for: %v, %s", err, got)
	}
}

// Functions with a manager are wiring; their neighbors are not.
func TestWiring(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": `module example.com/wiring

go 1.26

require sigs.k8s.io/controller-runtime v0.0.0

replace sigs.k8s.io/controller-runtime => ./controller-runtime
`,
		"controller-runtime/go.mod":                 "module sigs.k8s.io/controller-runtime\n\ngo 1.26\n",
		"controller-runtime/alias.go":               "package ctrl\n\nimport \"sigs.k8s.io/controller-runtime/pkg/manager\"\n\ntype Manager = manager.Manager\n",
		"controller-runtime/pkg/manager/manager.go": "package manager\n\ntype Manager interface{ Elected() bool }\n\nfunc New() (Manager, error) { return nil, nil }\n",
		"argued.txt": "",
		"setup.go": `package wiring

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

func SetupWithManager(mgr ctrl.Manager) bool { return given(mgr.Elected()) }

type starter struct{ mgr ctrl.Manager }

func (s *starter) start() { SetupWithManager(s.mgr) }

func make() bool {
	_, err := manager.New()
	return err == nil
}

func (s *starter) elected() bool { return s.mgr.Elected() }

func given(elected bool) bool { return !elected }
`,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	var out strings.Builder
	err := run(t.Context(), []string{"-argued", "argued.txt", "-out", "tables", "."}, &out)
	want := `setup.go:19: unreached | starter.elected: negate: s.mgr.Elected()
setup.go:21: unreached | given: negate: !elected
example.com/wiring: 0.0% killed (0 of 2), 0 survived, 2 unreached, 0 argued, 0 not compiling
all: 0.0% killed (0 of 2)
`
	if d := cmp.Diff(want, out.String()); d != "" || err != nil {
		t.Errorf("%v: %s", err, d)
	}
}

func TestReadArgued(t *testing.T) {
	file := filepath.Join(t.TempDir(), "argued.txt")
	for _, text := range []string{"a.go | F: drop: x", "a.go | F: drop: x | "} {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		if got, err := readArgued(file); err == nil {
			t.Errorf("%q has no reason, got %v", text, got)
		}
	}
}
