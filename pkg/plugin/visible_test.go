// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/output"
)

func TestVisible(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"text", "a\tb\r\nc\n", "a\tb\r\nc\n"},
		{"other languages", "größer 日本語 🙂\n", "größer 日本語 🙂\n"},
		{"color", "\x1b[31mred\x1b[0m", "^[[31mred^[[0m"},
		{"title of the window", "\x1b]0;x\a", "^[]0;x^G"},
		{"overwritten line", "failed\rpassed\n", "failed^Mpassed\n"},
		{"return at the end", "a\r", "a^M"},
		{"erased characters", "a\b\x7f\x00", "a^H^?^@"},
		{"escape sequence of one character", "\u009b31m", "^[[31m"},
		{"and in no UTF-8", "\x9b31m", "^[[31m"},
		{"after a part of a character", "\xe2\x9b31m", "\xe2^[[31m"},
		{"at the end", "\xe2\x9b", "\xe2^[["},
		{"no UTF-8", "gr\xf6\xdfer\n", "gr\xf6\xdfer\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for size := 1; size <= len(tc.in); size++ {
				var out bytes.Buffer
				w := &visibleWriter{to: &out}
				for rest := []byte(tc.in); len(rest) > 0; rest = rest[min(size, len(rest)):] {
					part := rest[:min(size, len(rest))]
					if n, err := w.Write(part); n != len(part) || err != nil {
						t.Fatal(n, err)
					}
				}
				if err := w.finish(); err != nil {
					t.Fatal(err)
				}
				if out.String() != tc.want {
					t.Errorf("in parts of %d bytes: got %q, want %q", size, out.String(), tc.want)
				}
			}
		})
	}
}

// What a log has for terminals reaches none, unless that is asked for.
func TestLogsOnTerminal(t *testing.T) {
	a := newAPI(t, inPool(instance("w1", ""), "a"), inPool(instance("w2", ""), "a"))
	a.handle(http.MethodGet, "log", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "\x1b[2Jgone\n\x1b") })
	for _, tc := range []struct {
		name     string
		terminal bool
		args     []string
		want     string
	}{
		{"terminal", true, []string{"logs", "w1"}, "^[[2Jgone\n^["},
		{"terminal, several hosts", true, []string{"logs", "--pool=a", "--max-parallel=1"}, "[w1] ^[[2Jgone\n[w1] ^[\n[w2] ^[[2Jgone\n[w2] ^[\n"},
		{"terminal, raw", true, []string{"logs", "w1", "--raw"}, "\x1b[2Jgone\n\x1b"},
		{"no terminal", false, []string{"logs", "w1"}, "\x1b[2Jgone\n\x1b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out, errOut output.Buffer
			e := newEnv(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
			e.terminal = tc.terminal
			cmd := newCommand(e)
			cmd.SetArgs(a.args("hosts", tc.args...))
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if out.String() != tc.want {
				t.Errorf("got %q, want %q", out.String(), tc.want)
			}
		})
	}
}

// TestTextsOfOthers: what a host says, or who writes events, does nothing to the terminal, in any answer.
func TestTextsOfOthers(t *testing.T) {
	const evil = "a\x1b[2J\u009b1mb\rc\x07"
	failed := operation("op", drain, v1alpha1.OperationFailed, evil)
	host := with(instance("w1", "node-1"), failed)
	host.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionFalse, Reason: "X", Message: evil}}
	a := newAPI(t, host)
	a.accept("drain", operation("op", drain, pending, ""))
	a.handle(http.MethodPost, "drain", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, v1alpha1.WindowsInstanceDrain{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsInstanceDrain"}, Status: v1alpha1.ActionStatus{Operation: failed},
		})
	})
	a.handle(http.MethodPost, "check", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, v1alpha1.WindowsInstanceCheck{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsInstanceCheck"},
			Status:   v1alpha1.WindowsInstanceCheckStatus{Layers: []v1alpha1.CheckLayer{{Name: "Agent", Result: v1alpha1.CheckFailed, Message: evil}}},
		})
	})
	a.handle(http.MethodGet, "inspect", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "w1", evil)
	})
	a.handle(http.MethodGet, "/api/v1/namespaces/hosts/events", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, corev1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}, Items: []corev1.Event{{Reason: "Evil", Message: evil}}})
	})
	for _, args := range [][]string{{"describe", "w1"}, {"drain", "w1"}, {"drain", "w1", "--max-parallel=2"}, {"check", "w1"}, {"top", "w1"}, {"inspect", "w1"}} {
		got := a.run(args...)
		text := got.stdout + got.stderr
		if !strings.Contains(text, "^[[2J^[[1mb") || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) }) {
			t.Errorf("%s says %q", args, text)
		}
	}
}
