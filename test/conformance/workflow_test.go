// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package conformance

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const checkout = "../.."

func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(checkout, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// step is a step of a workflow, as far as it is checked.
type step struct {
	Name, Uses, Shell, Run string
	With                   map[string]string
}

func readSteps(t *testing.T) []step {
	t.Helper()
	var workflow struct {
		Jobs map[string]struct {
			Strategy struct{ Matrix struct{ OS []string } }
			Steps    []step
		}
	}
	if err := yaml.Unmarshal([]byte(readFile(t, ".github/workflows/conformance.yml")), &workflow); err != nil {
		t.Fatal(err)
	}
	job := workflow.Jobs["windows"]
	if len(job.Strategy.Matrix.OS) < 2 || len(job.Steps) == 0 {
		t.Fatalf("the job runs on %q and has %d steps", job.Strategy.Matrix.OS, len(job.Steps))
	}
	return job.Steps
}

// Nobody sees a slip in the workflow before it runs, and it runs elsewhere.
func TestWorkflow(t *testing.T) {
	action := regexp.MustCompile(`^[a-z-]+/[a-z-]+@v\d+$`)
	written := ""
	for _, s := range readSteps(t) {
		switch {
		case s.Uses != "":
			if !action.MatchString(s.Uses) {
				t.Errorf("uses %q, want one with its major version", s.Uses)
			}
			if file := s.With["go-version-file"]; file != "" {
				readFile(t, file)
			}
			if report := s.With["path"]; report != "" && !strings.Contains(written, report) {
				t.Errorf("%s is uploaded, and no step writes it", report)
			}
		case strings.Contains(s.Run, "${{"):
			t.Errorf("%s: what the workflow fills in is no text of its shell: use variables", s.Name)
		case s.Shell == "bash":
			cmd := exec.Command("bash", "-n")
			cmd.Stdin = strings.NewReader(s.Run)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", s.Name, err, out)
			}
		case s.Shell == "powershell":
			checkScripts(t, s.Run)
		default:
			t.Errorf("%s: shell %q is not checked", s.Name, s.Shell)
		}
		written += s.Run
	}
	checkScripts(t, readFile(t, "docs/conformance.md"))
}

// checkScripts says whether the scripts that a text calls are there and have these parameters.
func checkScripts(t *testing.T, text string) {
	t.Helper()
	calls := regexp.MustCompile(`(hack[/\\][a-z-]+\.ps1)((?: -[A-Z]\w+ (?:"[^"]*"|\S+))*)`).FindAllStringSubmatch(text, -1)
	if len(calls) == 0 {
		t.Errorf("no script is called:\n%s", text)
	}
	for _, call := range calls {
		script := readFile(t, strings.ReplaceAll(call[1], `\`, "/"))
		for _, parameter := range regexp.MustCompile(` -([A-Z]\w+)`).FindAllStringSubmatch(call[2], -1) {
			if !regexp.MustCompile(`(?m)^param\(.*\$` + parameter[1] + `\b`).MatchString(script) {
				t.Errorf("%s has no parameter %s", call[1], parameter[1])
			}
		}
	}
}

// What runs the checks uses flags that there are.
func TestFlags(t *testing.T) {
	workflow := ""
	for _, s := range readSteps(t) {
		workflow += s.Run + "\n"
	}
	name := regexp.MustCompile(`(?:^|\s)-([a-z-]+)`)
	for from, text := range map[string]string{"workflow": workflow, "Makefile": readFile(t, "Makefile")} {
		t.Run(from, func(t *testing.T) {
			text = strings.ReplaceAll(text, "\\\n", " ")
			command := regexp.MustCompile(`go test (.*TestHost.*) \./test/conformance(.*)`).FindStringSubmatch(text)
			if command == nil {
				t.Fatal("it does not run TestHost")
			}
			for _, f := range name.FindAllStringSubmatch(command[1], -1) {
				if f[1] != "trimpath" && flag.Lookup("test."+f[1]) == nil {
					t.Errorf("go test has no -%s", f[1])
				}
			}
			needed := map[string]bool{"host": true, "key": true}
			for _, f := range name.FindAllStringSubmatch(command[2], -1) {
				if flag.Lookup(f[1]) == nil {
					t.Errorf("the tests have no -%s", f[1])
				}
				delete(needed, f[1])
			}
			for f := range needed {
				t.Errorf("-%s is not given", f)
			}
		})
	}
}
