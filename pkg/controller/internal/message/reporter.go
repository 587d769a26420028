// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package message

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RepeatAfter is when a problem that lasts is told again: an API server keeps events for an hour by default (--event-ttl), and
// whoever looks for the reason later is to find one.
const RepeatAfter = 30 * time.Minute

// Reporter emits Warning events about problems of objects of one kind, each once
// and not at every pass, and again after [RepeatAfter]. After a restart each problem is reported once more. It is
// safe for concurrent use.
type Reporter struct {
	recorder record.EventRecorder
	scheme   *runtime.Scheme
	now      func() time.Time

	mu   sync.Mutex // guards told
	told map[types.NamespacedName]told
}

// told is what was last reported about one object.
type told struct {
	uid      types.UID
	problems map[string]problem // by field
}

// problem is one that was reported at some time.
type problem struct {
	message string
	at      time.Time
}

// NewReporter returns a Reporter that emits through recorder about objects that
// scheme knows.
func NewReporter(recorder record.EventRecorder, scheme *runtime.Scheme) *Reporter {
	return &Reporter{recorder: recorder, scheme: scheme, now: time.Now, told: map[types.NamespacedName]told{}}
}

// Report emits an event about obj for each of problems that is new, has a new
// message, or was told [RepeatAfter] ago. Problems are messages by the path of the field that they are about, for
// example data[10.1.42.1]; empty is the whole object. A problem that went away and
// comes back is reported again. Reason is that of the events, in CamelCase.
func (r *Reporter) Report(obj client.Object, reason string, problems map[string]string) {
	key, now := client.ObjectKeyFromObject(obj), r.now()
	var tell []string
	r.mu.Lock()
	before, after := r.told[key], told{uid: obj.GetUID(), problems: map[string]problem{}}
	for _, field := range slices.Sorted(maps.Keys(problems)) {
		last, is := before.problems[field]
		if is && before.uid == after.uid && last.message == problems[field] && now.Sub(last.at) < RepeatAfter {
			after.problems[field] = last
			continue
		}
		after.problems[field] = problem{problems[field], now}
		tell = append(tell, field)
	}
	if r.told[key] = after; len(problems) == 0 {
		delete(r.told, key)
	}
	r.mu.Unlock()

	for _, field := range tell {
		r.recorder.Event(r.regarding(obj, field), corev1.EventTypeWarning, reason, EventNote(problems[field]))
	}
}

// regarding refers to a field of obj, so that programs know which one an event is about.
func (r *Reporter) regarding(obj client.Object, field string) runtime.Object {
	ref, err := reference.GetPartialReference(r.scheme, obj, field)
	if err != nil {
		return obj // the recorder says what is wrong with it
	}
	return ref
}

// Forget drops what was reported about an object that is gone.
func (r *Reporter) Forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.told, key)
}
