// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package message

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestReporter(t *testing.T) {
	recorder := record.NewFakeRecorder(10)
	r := NewReporter(recorder, scheme.Scheme)
	now := time.Now()
	r.now = func() time.Time { return now }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1"}}
	steps := []struct {
		name     string
		uid      string
		problems map[string]string
		forget   bool
		after    time.Duration
		want     []string
	}{
		{name: "new", uid: "1", problems: map[string]string{"y": "why", "x": "ex"}, want: []string{"Warning Bad ex", "Warning Bad why"}},
		{name: "the same", uid: "1", problems: map[string]string{"y": "why", "x": "ex"}},
		{name: "soon after", uid: "1", after: RepeatAfter - time.Minute, problems: map[string]string{"y": "why", "x": "ex", "z": "zet"}, want: []string{"Warning Bad zet"}},
		{name: "it lasts", uid: "1", after: time.Minute, problems: map[string]string{"y": "why", "x": "ex", "z": "zet"}, want: []string{"Warning Bad ex", "Warning Bad why"}},
		{name: "also that which came later", uid: "1", after: RepeatAfter - time.Minute, problems: map[string]string{"y": "why", "x": "ex", "z": "zet"}, want: []string{"Warning Bad zet"}},
		{name: "another message", uid: "1", problems: map[string]string{"y": "not", "x": "ex"}, want: []string{"Warning Bad not"}},
		{name: "one is put right", uid: "1", problems: map[string]string{"x": "ex"}},
		{name: "and comes back", uid: "1", problems: map[string]string{"y": "not", "x": "ex"}, want: []string{"Warning Bad not"}},
		{name: "another object of that name", uid: "2", problems: map[string]string{"x": "ex"}, want: []string{"Warning Bad ex"}},
		{name: "forgotten", uid: "2", problems: map[string]string{"x": "ex"}, forget: true, want: []string{"Warning Bad ex"}},
		{name: "all is right", uid: "2"},
	}
	for _, step := range steps {
		pod.UID = "1"
		if step.uid == "2" {
			pod.UID = "2"
		}
		now = now.Add(step.after)
		if step.forget {
			r.Forget(client.ObjectKeyFromObject(pod))
		}
		r.Report(pod, "Bad", step.problems)
		var got []string
		for len(recorder.Events) > 0 {
			got = append(got, <-recorder.Events)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", step.name, diff)
		}
	}
	if len(r.told) > 0 {
		t.Errorf("what is right is kept: %v", r.told)
	}
}

// Neither what is wrong with another field nor what is wrong with the same one later is
// taken for what was said before.
func TestReporterLosesNoProblem(t *testing.T) {
	cluster := fake.NewClientset()
	broadcaster := record.NewBroadcaster(record.WithContext(t.Context()))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: cluster.CoreV1().Events("")})
	r := NewReporter(broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "test"}), scheme.Scheme)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1"}}
	r.Report(cm, "Bad", map[string]string{"data[x]": "ex", "data[y]": "why"})
	r.Report(cm, "Bad", map[string]string{"data[x]": "another", "data[y]": "why"})

	var notes []string
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		list, err := cluster.CoreV1().Events("ns").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		notes = nil
		for _, e := range list.Items {
			if about := e.InvolvedObject; about.UID != "1" || about.Kind != "ConfigMap" || !strings.HasPrefix(about.FieldPath, "data[") {
				t.Errorf("event regards %+v", about)
			}
			notes = append(notes, e.Message)
		}
		return len(notes) == 3, nil
	})
	if err != nil {
		t.Errorf("events %q, %v, want three", notes, err)
	}
}

func TestEventNote(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("x", 1024)} {
		if got := EventNote(text); got != text {
			t.Errorf("EventNote changed a text of %d bytes", len(text))
		}
	}
	for offset := range 3 {
		long := strings.Repeat("x", offset) + strings.Repeat("ä", 1000)
		got := EventNote(long)
		if len(got) > 1024 || len(got) < 1022 || !utf8.ValidString(got) || !strings.HasSuffix(got, "ä…") {
			t.Errorf("offset %d: %d bytes, valid %v, end %q", offset, len(got), utf8.ValidString(got), got[len(got)-5:])
		}
	}
}

func TestLines(t *testing.T) {
	if got := Lines([]string{"a", "b"}); got != "a\nb" {
		t.Errorf("got %q", got)
	}
	var many []string
	for range 31 {
		many = append(many, strings.Repeat("x", 1000))
	}
	got := Lines(many)
	if lines := strings.Split(got, "\n"); len(lines) != 31 || lines[30] != "and 1 more" || len(lines[0]) != 400 || len(got) > 32768 {
		t.Errorf("%d bytes, %d lines, last %q", len(got), len(lines), lines[len(lines)-1])
	}
}

func TestSentences(t *testing.T) {
	for _, tt := range []struct{ text, sentence, cause string }{
		{"it failed", "It failed.", "it failed."},
		{"It failed.", "It failed.", "It failed."},
		{"42 failed", "42 failed.", "42 failed."},
		{"a host", "A host.", "a host."},
		{"zone unknown", "Zone unknown.", "zone unknown."},
		{"{} is empty", "{} is empty.", "{} is empty."},
		{"äpfel", "äpfel.", "äpfel."},
		{"", "", "no reason is known."},
	} {
		if got := Sentence(tt.text); got != tt.sentence {
			t.Errorf("sentence of %q: got %q, want %q", tt.text, got, tt.sentence)
		}
		if got := Cause(tt.text); got != tt.cause {
			t.Errorf("cause of %q: got %q, want %q", tt.text, got, tt.cause)
		}
	}
}

// A cause comes from hosts and libraries, with white space and periods of its own.
func TestCause(t *testing.T) {
	for text, want := range map[string]string{" \n": "no reason is known.", " it was not sent...\r\n": "it was not sent."} {
		if got := Cause(text); got != want {
			t.Errorf("cause of %q: got %q, want %q", text, got, want)
		}
	}
}

// What a host says need not be text. It is cut all the same, to what the API takes.
func TestShorten(t *testing.T) {
	if got := Shorten(strings.Repeat("\x80", 10), 5); got != "…" {
		t.Errorf("got %q", got)
	}
	if got := ConditionMessage(strings.Repeat("x", 40000)); len(got) != 32768 {
		t.Errorf("a message of %d bytes", len(got))
	}
}
