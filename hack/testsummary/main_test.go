// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const pkg = `"Package":"github.com/openshift/windows-instance-api/pkg/a"`

func TestSummary(t *testing.T) {
	tests := []struct {
		name  string
		input []string
		want  string
	}{
		{
			name: "passed and skipped",
			input: []string{
				`{"Action":"start",` + pkg + `}`,
				`{"Action":"output",` + pkg + `,"Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestA","Output":"noise\n"}`,
				`{"Action":"pass",` + pkg + `,"Test":"TestA","Elapsed":0.1}`,
				`{"Action":"output",` + pkg + `,"Test":"TestB","Output":"    a_test.go:7: needs root\n"}`,
				`{"Action":"skip",` + pkg + `,"Test":"TestB"}`,
				`{"Action":"pass",` + pkg + `,"Elapsed":1.25}`,
			},
			want: `ok   pkg/a                                                            1.2 s  2 tests, 1 skipped

skipped:
  pkg/a TestB: needs root

1 packages with tests, 0 of them failed
1 passed, 0 failed, 1 skipped
`,
		},
		{
			name: "failed",
			input: []string{
				`{"Action":"output",` + pkg + `,"Test":"TestA","Output":"    a_test.go:7: wrong\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestA","Output":"        a log of a program\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestA","Output":"    main_test.go:9: the first line\n        the second\n"}`,
				`{"Action":"fail",` + pkg + `,"Test":"TestA","Elapsed":2}`,
				`{"Action":"output",` + pkg + `,"Output":"FAIL\n"}`,
				`{"Action":"fail",` + pkg + `,"Elapsed":3}`,
			},
			want: `--- FAIL pkg/a TestA (2.0 s)
    a_test.go:7: wrong
        a log of a program
    main_test.go:9: the first line
        the second
FAIL pkg/a                                                            3.0 s  1 tests, 1 failed

failed:
  pkg/a TestA
    a_test.go:7: wrong
        a log of a program
    main_test.go:9: the first line
        the second

1 packages with tests, 1 of them failed
0 passed, 1 failed, 0 skipped
`,
		},
		{
			// The race detector says what it found in the output of whichever test printed last, and go test fails all that had not ended.
			name: "a data race",
			input: []string{
				`{"Action":"output",` + pkg + `,"Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestB","Output":"=== RUN   TestB\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestB","Output":"==================\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestB","Output":"WARNING: DATA RACE\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestB","Output":"Read at 0x00c000796678 by goroutine 94:\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestB","Output":"==================\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestC","Output":"    testing.go:1712: race detected during execution of test\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestC","Output":"--- FAIL: TestC (0.00s)\n"}`,
				`{"Action":"fail",` + pkg + `,"Test":"TestC"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestA","Output":"    a_test.go:7: wrong\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestA","Output":"    testing.go:1712: race detected during execution of test\n"}`,
				`{"Action":"fail",` + pkg + `,"Test":"TestA","Elapsed":2}`,
				`{"Action":"output",` + pkg + `,"Test":"TestD","Output":"    testing.go:1712: race detected during execution of test\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestD","Output":"--- FAIL: TestD (0.00s)\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestD","Output":"panic: no\n"}`,
				`{"Action":"fail",` + pkg + `,"Test":"TestD"}`,
				`{"Action":"pass",` + pkg + `,"Test":"TestB"}`,
				`{"Action":"output",` + pkg + `,"Output":"FAIL\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestB","Output":"WARNING: DATA RACE\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestB","Output":"Write at"}`,
				`{"Action":"fail",` + pkg + `,"Elapsed":3}`,
			},
			want: `pkg/a:
WARNING: DATA RACE
Read at 0x00c000796678 by goroutine 94:
==================
--- FAIL pkg/a TestA (2.0 s)
=== RUN   TestA
    a_test.go:7: wrong
    testing.go:1712: race detected during execution of test
--- FAIL pkg/a TestD (0.0 s)
    testing.go:1712: race detected during execution of test
--- FAIL: TestD (0.00s)
panic: no
pkg/a:
WARNING: DATA RACE
Write at
==================
FAIL pkg/a                                                            3.0 s  4 tests, 3 failed

failed:
  pkg/a TestA
    a_test.go:7: wrong
  pkg/a TestC
  pkg/a TestD

data races, for which go test fails all tests that had not ended:
  pkg/a:
WARNING: DATA RACE
Read at 0x00c000796678 by goroutine 94:
  pkg/a:
WARNING: DATA RACE
Write at

1 packages with tests, 1 of them failed
1 passed, 3 failed, 0 skipped
`,
		},
		{
			name: "slow",
			input: []string{
				`{"Action":"pass",` + pkg + `,"Test":"TestA/part","Elapsed":61}`,
				`{"Action":"pass",` + pkg + `,"Test":"TestA","Elapsed":61}`,
				`{"Action":"pass",` + pkg + `,"Test":"TestB","Elapsed":59.9}`,
				`{"Action":"pass",` + pkg + `,"Test":"TestC","Elapsed":700}`,
				`{"Action":"pass",` + pkg + `,"Elapsed":800}`,
			},
			want: `ok   pkg/a                                                          800.0 s  4 tests

slowest, in seconds:
    700 pkg/a TestC
     61 pkg/a TestA

1 packages with tests, 0 of them failed
4 passed, 0 failed, 0 skipped
`,
		},
		{
			// What ended a test is said last.
			name: "failed after many messages",
			input: []string{
				`{"Action":"output",` + pkg + `,"Test":"TestA","Output":"    a_test.go:1: 1\n    a_test.go:1: 2\n    a_test.go:1: 3\n    a_test.go:1: 4\n    a_test.go:1: 5\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestA","Output":"I0101 a program\n        of which this is a line\n"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestA","Output":"    a_test.go:1: 6\n    a_test.go:1: 7\n    a_test.go:1: 8\n    a_test.go:1: 9\n    a_test.go:2: what ended it\n"}`,
				`{"Action":"fail",` + pkg + `,"Test":"TestA","Elapsed":2}`,
				`{"Action":"output",` + pkg + `,"Output":"FAIL\n"}`,
				`{"Action":"fail",` + pkg + `,"Elapsed":3}`,
			},
			want: `--- FAIL pkg/a TestA (2.0 s)
    a_test.go:1: 1
    a_test.go:1: 2
    a_test.go:1: 3
    a_test.go:1: 4
    a_test.go:1: 5
I0101 a program
        of which this is a line
    a_test.go:1: 6
    a_test.go:1: 7
    a_test.go:1: 8
    a_test.go:1: 9
    a_test.go:2: what ended it
FAIL pkg/a                                                            3.0 s  1 tests, 1 failed

failed:
  pkg/a TestA
    a_test.go:1: 1
    a_test.go:1: 2
    (2 more)
    a_test.go:1: 5
    a_test.go:1: 6
    a_test.go:1: 7
    a_test.go:1: 8
    a_test.go:1: 9
    a_test.go:2: what ended it

1 packages with tests, 1 of them failed
0 passed, 1 failed, 0 skipped
`,
		},
		{
			name: "does not compile",
			input: []string{
				`{"ImportPath":"x [x.test]","Action":"build-output","Output":"a.go:1: broken\n"}`,
				`{"ImportPath":"x [x.test]","Action":"build-fail"}`,
				`{"Action":"fail",` + pkg + `,"Elapsed":0,"FailedBuild":"x [x.test]"}`,
			},
			want: `a.go:1: broken
FAIL pkg/a                                                            0.0 s  0 tests

failed:
  pkg/a

1 packages with tests, 1 of them failed
0 passed, 1 failed, 0 skipped
`,
		},
		{
			name: "panics after a test that passed",
			input: []string{
				`{"Action":"pass",` + pkg + `,"Test":"TestA"}`,
				`{"Action":"output",` + pkg + `,"Test":"TestB","Output":"panic: no\n"}`,
				`{"Action":"fail",` + pkg + `,"Elapsed":1}`,
			},
			want: `panic: no
FAIL pkg/a                                                            1.0 s  1 tests

failed:
  pkg/a

1 packages with tests, 1 of them failed
1 passed, 1 failed, 0 skipped
`,
		},
		{
			name: "killed",
			input: []string{
				`go: something to say`,
				`{"Action":"pass",` + pkg + `,"Test":"TestA"}`,
			},
			want: `go: something to say
FAIL pkg/a                                                            0.0 s  1 tests

failed:
  pkg/a

1 packages with tests, 1 of them failed
1 passed, 1 failed, 0 skipped
`,
		},
		{
			name:  "no tests",
			input: []string{`{"Action":"skip",` + pkg + `}`},
			want: `
0 packages with tests, 0 of them failed
0 passed, 0 failed, 0 skipped
`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			s := newSummary(&out)
			if err := s.read(strings.NewReader(strings.Join(tt.input, "\n") + "\n")); err != nil {
				t.Fatal(err)
			}
			s.print()
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("printed (-want +got):\n%s", diff)
			}
		})
	}
}

const systemsPkg = `"Package":"github.com/openshift/windows-instance-api/test/e2e"`

// TestAgain runs tests that failed a second time.
func TestAgain(t *testing.T) {
	failed := []string{
		`{"Action":"output",` + systemsPkg + `,"Test":"TestA/one","Output":"    a_test.go:7: slow\n"}`,
		`{"Action":"fail",` + systemsPkg + `,"Test":"TestA/one"}`,
		`{"Action":"pass",` + systemsPkg + `,"Test":"TestA/two"}`,
		`{"Action":"fail",` + systemsPkg + `,"Test":"TestA"}`,
	}
	all := []string{`{"Action":"output",` + systemsPkg + `,"Output":"FAIL\n"}`, `{"Action":"fail",` + systemsPkg + `}`}
	passes := []string{
		`{"Action":"pass",` + systemsPkg + `,"Test":"TestA/one"}`,
		`{"Action":"pass",` + systemsPkg + `,"Test":"TestA"}`,
		`{"Action":"pass",` + systemsPkg + `}`,
	}
	fails := []string{
		`{"Action":"fail",` + systemsPkg + `,"Test":"TestA"}`,
		`{"Action":"output",` + systemsPkg + `,"Output":"FAIL\n"}`,
		`{"Action":"fail",` + systemsPkg + `}`,
	}
	for _, tt := range []struct {
		name          string
		first, second []string
		ran           string
		want          string
	}{
		{
			name: "passes alone", first: slices.Concat(failed, all), second: passes, ran: "^(TestA)$", want: `
flaky, failed in the run of all tests and passed alone:
  test/e2e TestA
  test/e2e TestA/one
    a_test.go:7: slow

1 packages with tests, 0 of them failed
3 passed, 0 failed, 0 skipped
`,
		},
		{name: "fails again", first: slices.Concat(failed, all), second: fails, ran: "^(TestA)$", want: "1 passed, 2 failed, 0 skipped\n"},
		{name: "runs nothing", first: slices.Concat(failed, all), ran: "^(TestA)$", want: "1 passed, 2 failed, 0 skipped\n"},
		{
			name: "a panic, after which tests did not run", second: passes, want: "1 passed, 3 failed, 0 skipped\n",
			first: append(slices.Clone(failed), `{"Action":"output",`+systemsPkg+`,"Output":"panic: no\n"}`, `{"Action":"fail",`+systemsPkg+`}`),
		},
		{
			name: "a race", second: passes, want: "1 passed, 2 failed, 0 skipped\n",
			first: slices.Concat([]string{`{"Action":"output",` + systemsPkg + `,"Test":"TestA","Output":"WARNING: DATA RACE\n"}`}, failed, all),
		},
		{
			name: "what failed is skipped", ran: "^(TestA)$", want: "2 passed, 1 failed, 0 skipped\n", first: slices.Concat(failed, all),
			second: []string{`{"Action":"skip",` + systemsPkg + `,"Test":"TestA/one"}`, `{"Action":"pass",` + systemsPkg + `,"Test":"TestA"}`, `{"Action":"pass",` + systemsPkg + `}`},
		},
		{
			name: "a test of one package fails too", second: passes, want: "1 passed, 3 failed, 0 skipped\n",
			first: slices.Concat(failed, all, []string{
				`{"Action":"fail",` + pkg + `,"Test":"TestB"}`, `{"Action":"output",` + pkg + `,"Output":"FAIL\n"}`, `{"Action":"fail",` + pkg + `}`,
			}),
		},
		{
			name: "too many", second: passes, want: "1 passed, 5 failed, 0 skipped\n",
			first: slices.Concat(failed, []string{
				`{"Action":"fail",` + systemsPkg + `,"Test":"TestB"}`, `{"Action":"fail",` + systemsPkg + `,"Test":"TestC"}`, `{"Action":"fail",` + systemsPkg + `,"Test":"TestD"}`,
			}, all),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			s := newSummary(&out)
			if err := s.read(strings.NewReader(strings.Join(tt.first, "\n"))); err != nil {
				t.Fatal(err)
			}
			ran := ""
			s.again(func(pkg, pattern string) ([]byte, error) {
				if pkg != systems+"e2e" {
					t.Errorf("%s is run", pkg)
				}
				ran += pattern
				return []byte(strings.Join(tt.second, "\n")), nil
			})
			s.print()
			if ran != tt.ran {
				t.Errorf("%q is run again, and not %q", ran, tt.ran)
			}
			if !strings.HasSuffix(out.String(), tt.want) {
				t.Errorf("printed:\n%s", out.String())
			}
		})
	}
}
