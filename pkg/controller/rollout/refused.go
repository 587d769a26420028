// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"errors"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/backoff"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// refusedBackoff is between attempts to write into the status of one instance.
var refusedBackoff = wait.Backoff{Duration: 10 * time.Second, Factor: 2, Cap: 5 * time.Minute}

// unclearFor is for how long a grant counts of which nobody knows whether it was written. By then the cache has it, or it was not.
const unclearFor = time.Minute

// unwritable is that nothing can be written into the status of an instance. Its host gets nothing until that is tried again, so that one
// which a webhook refuses, for example, does not keep all others from their slots.
type unwritable struct {
	inRow int
	until time.Time
	why   string
	// unclear is what may have been written after all. Nil: it surely was not.
	unclear *v1alpha1.Operation
}

// wasWritten says whether an instance has what may have been written.
func (r unwritable) wasWritten(i *v1alpha1.WindowsInstance) bool {
	op := i.Status.Operation
	return r.unclear != nil && op != nil && op.ID == r.unclear.ID && op.AdmittedImpact == r.unclear.AdmittedImpact
}

// surelyNotWritten says whether a write was refused, and not only not answered.
func surelyNotWritten(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout || byWebhook(status.Status().Message)
}

// byWebhook says whether an API server answers in these words that it wrote nothing, whatever code it has: a webhook denied it, or could not be
// asked. It asks webhooks before it writes. The words of the latter are those of pkg/util/webhook of k8s.io/apiserver.
func byWebhook(answer string) bool {
	return strings.HasPrefix(answer, `Internal error occurred: failed calling webhook "`) || words.DeniedByWebhook(answer)
}

// refuse notes that a grant could not be written, which would have recorded, or admitted, an operation.
func (s *Scheduler) refuse(key types.NamespacedName, op *v1alpha1.Operation, err error) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.refused[key]
	r.inRow++
	r.unclear = nil
	r.why = "Nothing can be written into its status: " + message.Cause(words.Steady(err.Error())) + " It is tried again"
	r.until = now.Add(backoff.After(refusedBackoff, r.inRow))
	if surelyNotWritten(err) {
		delete(s.written, key)
	} else {
		written := s.written[key]
		written.lapses = now.Add(unclearFor)
		s.written[key] = written
		r.until, r.unclear = r.until.Add(unclearFor), op
	}
	s.refused[key] = r
}

// refusedOf is that of an instance, zero if its status can be written, which is known again when it has what nobody knew of whether it was.
func (s *Scheduler) refusedOf(i *v1alpha1.WindowsInstance) unwritable {
	key := client.ObjectKeyFromObject(i)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused[key].wasWritten(i) {
		delete(s.refused, key)
	}
	return s.refused[key]
}

// forgetRefused forgets instances that are gone.
func (s *Scheduler) forgetRefused(known map[types.NamespacedName]*v1alpha1.WindowsInstance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.refused {
		if known[key] == nil {
			delete(s.refused, key)
		}
	}
}
