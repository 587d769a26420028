// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Command mutate tells which mistakes the unit tests of a package would not notice:
//
//	go run ./hack/mutate [-argued FILE] [-out DIR] [-minimum PERCENT] [-every N] PACKAGE...
//
// It makes one small mistake after the other in the code of the package and runs the tests beside it. A
// mistake is killed when a test fails, and survives otherwise. The kinds are
//
//	never     a guard that never applies (always: that always does)
//	without   a condition without one of its operands
//	boundary  < for <=, and the like
//	negate    the opposite of a bool that is set, passed or returned
//	drop      a statement that is missing: a call, an assignment, continue
//	uncalled  a function that is not called, as if it had returned no error
//	omit      a field or key that is not set in a literal
//	constant  another text or number than the constant
//
// Not made are those in log messages, the texts of errors, metrics and locks; in "if err != nil { return … }",
// which linters look after; and in wiring, which only the tests of the system run: functions that are given a
// manager of controllers, such as SetupWithManager, make one, or hand one on.
//
// The package is compiled once, with all mistakes in it, each behind a switch; the tree is not touched. Only the tests
// that reach a mistake run for it, those that take long only if no other has noticed it. What was found is kept in DIR, one table for each package, so
// that a run that was ended continues, and that after a change of tests only the survivors run again.
//
// With -every N only each Nth mistake is tried, for packages whose tests take long.
//
// FILE argues for mistakes that change nothing that a test could observe, one a line: the file,
// the mistake as it is listed, and the reason, with " | " between them.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The ends of a mutant.
const (
	killed    = "killed"
	survived  = "survived"
	unreached = "unreached" // no test runs this code in a way that could tell
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	arguedFile := flags.String("argued", "hack/mutate/argued.txt", "file with survivors that no test can notice")
	dir := flags.String("out", "_output/mutate", "directory for the tables")
	minimum := flags.Int("minimum", 0, "fail when less than so many percent are killed")
	every := flags.Int("every", 1, "try only each Nth mistake")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *every < 1 {
		return errors.New("-every: want 1 or more")
	}
	argued, err := readArgued(*arguedFile)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*dir, 0o755); err != nil {
		return err
	}
	packages, err := list(ctx, flags.Args()...)
	if err != nil {
		return err
	}
	var sum, all int
	for _, pkg := range packages {
		if len(pkg.GoFiles) == 0 {
			continue
		}
		results, invalid, err := mutatePackage(ctx, pkg, *dir, *every)
		if err != nil {
			return fmt.Errorf("%s: %w", pkg.ImportPath, err)
		}
		counts, report := map[string]int{}, strings.Builder{}
		for _, r := range results {
			key := r.Place + " | " + r.What
			_, excused := argued[key]
			switch {
			case excused && r.state != killed:
				counts["argued"]++
				argued[key] = true
			default:
				counts[r.state]++
				if r.state != killed {
					fmt.Fprintf(&report, "%s:%d: %s | %s\n", r.Place, r.Line, r.state, r.What)
				}
			}
		}
		for key, used := range argued {
			if place, _, _ := strings.Cut(key, " | "); !used && *every == 1 && filepath.Join(pkg.Module.Dir, filepath.Dir(place)) == pkg.Dir {
				return fmt.Errorf("%s: no mutant survives as %q: remove the line", *arguedFile, key)
			}
		}
		n := len(results) - counts["argued"]
		sum, all = sum+counts[killed], all+n
		fmt.Fprintf(&report, "%s: %s killed (%d of %d), %d survived, %d unreached, %d argued, %d not compiling\n",
			pkg.ImportPath, percent(counts[killed], n), counts[killed], n, counts[survived], counts[unreached], counts["argued"], invalid)
		if _, err := io.WriteString(out, report.String()); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(out, "all: %s killed (%d of %d)\n", percent(sum, all), sum, all); err != nil {
		return err
	}
	if all > 0 && 100*sum < all**minimum {
		return fmt.Errorf("less than %d%% killed", *minimum)
	}
	return nil
}

func percent(part, all int) string {
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(max(all, 1)))
}

// readArgued reads the file with mutants that are argued for; the values are whether they were met.
func readArgued(file string) (map[string]bool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read what is argued for: %w", err)
	}
	argued := map[string]bool{}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.LastIndex(line, " | ")
		if strings.Count(line, " | ") < 2 || strings.TrimSpace(line[end+3:]) == "" {
			return nil, fmt.Errorf("%s:%d: want file | mutant | reason", file, i+1)
		}
		argued[line[:end]] = false
	}
	return argued, nil
}

type result struct {
	mutant
	state string
}

// mutatePackage returns how each Nth mutant of the package ended, and how many of all did not compile.
func mutatePackage(ctx context.Context, pkg source, dir string, every int) ([]result, int, error) {
	code, err := pkg.digest(pkg.GoFiles...)
	if err != nil {
		return nil, 0, err
	}
	tests, err := pkg.digest(slices.Concat(pkg.TestGoFiles, pkg.XTestGoFiles)...)
	if err != nil {
		return nil, 0, err
	}
	work, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	bin := filepath.Join(work, "test")
	mutants, invalid, err := pkg.build(ctx, work, bin)
	if err != nil {
		return nil, 0, err
	}
	table := filepath.Join(dir, strings.ReplaceAll(pkg.ImportPath, "/", "_")+".tsv")
	known := readTable(table, code, tests)
	f, err := os.Create(table)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	lines := fmt.Sprintf("#%s\t%s\n", code, tests)
	for row, state := range known { // first, so that they are kept when this run is ended
		lines += state + "\t" + row + "\n"
	}
	if _, err := f.WriteString(lines); err != nil {
		return nil, 0, err
	}
	var results []result
	var reach *reach
	for i, m := range mutants {
		if i%every != 0 {
			continue
		}
		state, ok := known[row(m)]
		if !ok {
			if reach == nil {
				fmt.Fprintf(os.Stderr, "%s: %d mutants\n", pkg.ImportPath, len(mutants))
				if reach, err = pkg.reach(ctx, work, bin); err != nil {
					return nil, 0, err
				}
			}
			if state, err = reach.try(ctx, m); err != nil {
				return nil, 0, err
			}
			if _, err := f.WriteString(state + "\t" + row(m) + "\n"); err != nil {
				return nil, 0, err
			}
		}
		results = append(results, result{m, state})
	}
	return results, invalid, nil
}

func row(m mutant) string { return fmt.Sprintf("%s\t%d:%d\t%s", m.Place, m.Line, m.Column, m.What) }

// readTable returns what an earlier run found that still holds, by row.
func readTable(file, code, tests string) map[string]string {
	known := map[string]string{}
	text, err := os.ReadFile(file)
	if err != nil {
		return known
	}
	lines := strings.Split(string(text), "\n")
	wasCode, wasTests, _ := strings.Cut(strings.TrimPrefix(lines[0], "#"), "\t")
	if wasCode != code {
		return known
	}
	for _, line := range lines[1:] {
		if state, row, ok := strings.Cut(line, "\t"); ok && (state == killed || wasTests == tests) {
			known[row] = state
		}
	}
	return known
}

// reach knows the tests of a package, and which of them reach which mutants.
type reach struct {
	dir, bin string
	took     map[string]time.Duration
	tests    map[int][]string
}

// reach runs each test on its own without a mistake.
func (s source) reach(ctx context.Context, work, bin string) (*reach, error) {
	r := &reach{dir: s.Dir, bin: bin, took: map[string]time.Duration{}, tests: map[int][]string{}}
	if _, err := os.Stat(bin); errors.Is(err, os.ErrNotExist) {
		return r, nil // it has no tests
	}
	out, err := r.command(ctx, "-test.list", "^(Test|Fuzz|Example)").Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests: %w", err)
	}
	for test := range strings.FieldsSeq(string(out)) {
		file := filepath.Join(work, "reached-"+test)
		cmd := r.command(ctx, "-test.run", "^"+test+"$")
		cmd.Env = append(os.Environ(), "MUTANTS_REACHED="+file)
		start := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%s is left out, it fails without a mistake: %v\n%s", test, err, out)
			continue
		}
		r.took[test] = time.Since(start)
		f, err := os.Open(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		seen := map[int]bool{}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if id, err := strconv.Atoi(lines.Text()); err == nil && !seen[id] {
				seen[id] = true
				r.tests[id] = append(r.tests[id], test)
			}
		}
		f.Close()
	}
	return r, ctx.Err()
}

// try runs the tests that reach the mutant, with it.
func (r *reach) try(ctx context.Context, m mutant) (string, error) {
	tests := r.tests[m.ID]
	if len(tests) == 0 {
		return unreached, nil
	}
	// Most mistakes are found by quick tests. Only what these miss is worth the long ones, which mostly wait and so
	// run side by side.
	var quick, long []string
	for _, test := range tests {
		if r.took[test] < time.Second {
			quick = append(quick, test)
		} else {
			long = append(long, test)
		}
	}
	if state, err := r.run(ctx, m, quick); state != survived || err != nil {
		return state, err
	}
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	found := make(chan bool)
	free := make(chan struct{}, sideBySide)
	for _, test := range long {
		go func() {
			free <- struct{}{}
			state, err := r.run(ctx, m, []string{test})
			<-free
			found <- state == killed && err == nil
		}()
	}
	state := survived
	for range long {
		if <-found {
			state = killed
			enough()
		}
	}
	if state == killed {
		return killed, nil
	}
	return survived, ctx.Err()
}

// sideBySide is how many long tests run at a time.
const sideBySide = 4

// run runs some tests with the mutant.
func (r *reach) run(ctx context.Context, m mutant, tests []string) (string, error) {
	if ctx.Err() != nil || len(tests) == 0 {
		return survived, ctx.Err()
	}
	limit := 10 * time.Second
	for _, test := range tests {
		limit += 5 * r.took[test]
	}
	deadline, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := r.command(deadline, "-test.failfast", "-test.run", "^("+strings.Join(tests, "|")+")$")
	cmd.Env = append(os.Environ(), "MUTANT="+strconv.Itoa(m.ID))
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return killed, nil
	}
	return survived, nil
}

// command runs the tests; all processes that they start end with it.
func (r *reach) command(ctx context.Context, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.bin, arguments...)
	cmd.Dir = r.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}
