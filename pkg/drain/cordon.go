// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// ErrNodeReplaced means that there is another Node of the name now.
var ErrNodeReplaced = errors.New("the Node was deleted, and another has its name")

// Mark is the trace that a cordon leaves on its Node.
type Mark struct {
	// ID identifies the cordon. It has no spaces.
	ID string
	// Purpose is what the cordon is for, in one word. Marks of one purpose stand for each
	// other: who cordons for the same purpose takes the cordon over, and may lift it.
	// Empty: only who made the mark may.
	Purpose string
	// Who wanted it, for people. It does not begin with a letter.
	Who string
	// Keeps is whether the Node is to stay cordoned whatever succeeds on it later: such a cordon takes over that of any purpose, and
	// nobody of that purpose may lift it any more.
	Keeps bool
}

// insteadOf is between the mark of a cordon and the one of another purpose that it took over.
const insteadOf = " instead of "

func (m Mark) value() string {
	value := m.ID
	for _, part := range []string{m.Purpose, plain(m.Who)} {
		if part != "" {
			value += " " + part
		}
	}
	return value
}

// plain is a name without what separates the parts of a mark: users may be called anything.
func plain(who string) string {
	for _, separator := range []string{insteadOf, untilReady} {
		words := strings.Trim(separator, ", ")
		who = strings.ReplaceAll(who, words, strings.ReplaceAll(words, " ", "-"))
	}
	return who
}

// AskedForBy is [Mark.Who] of what a user, or a controller, has asked for.
func AskedForBy(requester string) string { return "(asked for by " + requester + ")" }

// IsMarked says whether a Node is cordoned with a mark of that purpose by that requester, whatever its ID is.
func IsMarked(node *corev1.Node, purpose, requester string) bool {
	mark := node.Annotations[v1alpha1.CordonedByAnnotation]
	_, rest, _ := strings.Cut(strings.TrimSuffix(mark, untilOf(mark)), " ")
	return node.Spec.Unschedulable && rest == purpose+" "+plain(AskedForBy(requester))
}

// MarkedFor returns the ID of the mark with which a Node is cordoned for a purpose. Empty: it is not cordoned, or not for that.
func MarkedFor(node *corev1.Node, purpose string) string {
	id, rest, _ := strings.Cut(node.Annotations[v1alpha1.CordonedByAnnotation], " ")
	if of, _, _ := strings.Cut(rest, " "); !node.Spec.Unschedulable || of != purpose {
		return ""
	}
	return id
}

// on says whether the Node has the mark, or one that it stands for.
func (m Mark) on(node *corev1.Node) bool {
	id, rest, _ := strings.Cut(node.Annotations[v1alpha1.CordonedByAnnotation], " ")
	purpose, _, _ := strings.Cut(rest, " ")
	return id != "" && (id == m.ID || m.Purpose != "" && purpose == m.Purpose)
}

// purposeOf is what the mark of a Node says that its cordon is for. Empty: nothing.
func purposeOf(node *corev1.Node) string {
	_, rest, _ := strings.Cut(node.Annotations[v1alpha1.CordonedByAnnotation], " ")
	purpose, _, _ := strings.Cut(rest, " ")
	if strings.HasPrefix(purpose, "(") { // who wanted it
		return ""
	}
	return purpose
}

// Cordoned says how a Node was found.
type Cordoned struct {
	// ByOther: it was cordoned already, and not with this mark nor one that it takes over. It
	// was left as it was.
	ByOther bool
	// Owner is the mark that it had then, for people. Empty: none, so kubectl cordon or the like.
	Owner string
	// TakenOver: it was cordoned with another mark that this one stands for or takes over, and has this one now.
	TakenOver bool
}

// Cordon marks a Node as unschedulable. One that is so already is left as it is, but for its mark where [Mark.Purpose] or [Mark.Keeps]
// says so.
// Repeating it is harmless. A UID keeps it from another Node of the same name.
func Cordon(ctx context.Context, client kubernetes.Interface, name string, uid types.UID, mark Mark) (Cordoned, error) {
	var found Cordoned
	err := change(ctx, client, name, uid, func(node *corev1.Node) (map[string]any, bool) {
		found = Cordoned{}
		value, former := mark.value(), node.Annotations[v1alpha1.CordonedByAnnotation]
		if id, _, _ := strings.Cut(former, " "); node.Spec.Unschedulable {
			keeps := mark.Keeps && purposeOf(node) != ""
			switch {
			case !mark.on(node) && !keeps:
				found = Cordoned{ByOther: true, Owner: former}
				return nil, false
			case id == mark.ID:
				return nil, false
			case keeps:
				value += insteadOf + former
			default:
				value += untilOf(former)
			}
			found = Cordoned{TakenOver: true, Owner: former}
		}
		return patch(node, true, value), true
	})
	if err != nil {
		return Cordoned{}, fmt.Errorf("cordoning Node %s: %w", name, err)
	}
	return found, nil
}

// untilReady is in the mark of a cordon that anybody may lift once the Node is ready, before the time after which it has to have become so.
const untilReady = ", until the Node is ready after "

// Await notes in the mark of a cordon that it is over once the Node has become ready after a time, whatever becomes of the record of
// who made it. It returns whether the Node has that mark. Repeating it is harmless.
func Await(ctx context.Context, client kubernetes.Interface, name string, uid types.UID, mark Mark, after time.Time) (noted bool, err error) {
	err = change(ctx, client, name, uid, func(node *corev1.Node) (map[string]any, bool) {
		former := node.Annotations[v1alpha1.CordonedByAnnotation]
		id, _, _ := strings.Cut(former, " ")
		value := mark.value() + untilReady + after.UTC().Format(time.RFC3339)
		noted = node.Spec.Unschedulable && id == mark.ID
		return patch(node, true, value), noted && former != value
	})
	if err != nil {
		return false, fmt.Errorf("noting what the cordon of Node %s waits for: %w", name, err)
	}
	return noted, nil
}

// untilOf is what [Await] has noted in a mark, which holds for whoever takes the cordon over, too. Empty: nothing.
func untilOf(mark string) string {
	at := strings.LastIndex(mark, untilReady) // whoever wanted it may be called anything
	if at < 0 {
		return ""
	}
	return mark[at:]
}

// AwaitedFor says whether a Node is cordoned for a purpose until it has become ready, and after which time.
func AwaitedFor(node *corev1.Node, purpose string) (after time.Time, ok bool) {
	if !node.Spec.Unschedulable || purposeOf(node) != purpose {
		return time.Time{}, false
	}
	text, noted := strings.CutPrefix(untilOf(node.Annotations[v1alpha1.CordonedByAnnotation]), untilReady)
	if !noted {
		return time.Time{}, false
	}
	after, err := time.Parse(time.RFC3339, text)
	return after, err == nil
}

// Abandoned says whether a Node has the mark of a cordon that somebody has lifted by other means. It must not be taken for the mark of a
// cordon that comes later.
func Abandoned(node *corev1.Node) bool {
	_, marked := node.Annotations[v1alpha1.CordonedByAnnotation]
	return marked && !node.Spec.Unschedulable
}

// Restore makes a Node schedulable again that was cordoned with the mark, or one of its
// purpose, and removes the mark. It returns whether the Node is schedulable now: one
// that somebody else has cordoned since stays so, and one whose cordon was taken over from another
// purpose is that one's again. It also returns whether a cordon was lifted for that. Repeating it is harmless.
//
// A mark that is left on a Node which somebody has uncordoned by other means, and then
// cordoned again, is taken for the one of that cordon: Kubernetes does not say who
// cordoned a Node. Where the Node is seen in between, such a mark is removed, see [Abandoned].
func Restore(ctx context.Context, client kubernetes.Interface, name string, uid types.UID, mark Mark) (schedulable, lifted bool, err error) {
	err = change(ctx, client, name, uid, func(node *corev1.Node) (map[string]any, bool) {
		on := mark.on(node)
		if _, former, taken := strings.Cut(node.Annotations[v1alpha1.CordonedByAnnotation], insteadOf); on && taken && node.Spec.Unschedulable {
			schedulable, lifted = false, false
			return patch(node, true, former), true
		}
		schedulable, lifted = !node.Spec.Unschedulable || on, node.Spec.Unschedulable && on
		return patch(node, false, nil), on
	})
	if err != nil {
		return false, false, fmt.Errorf("uncordoning Node %s: %w", name, err)
	}
	return schedulable, lifted, nil
}

// Uncordon makes a Node schedulable again, whoever cordoned it. It returns whether it was not.
func Uncordon(ctx context.Context, client kubernetes.Interface, name string, uid types.UID) (changed bool, err error) {
	err = change(ctx, client, name, uid, func(node *corev1.Node) (map[string]any, bool) {
		_, marked := node.Annotations[v1alpha1.CordonedByAnnotation]
		changed = node.Spec.Unschedulable
		return patch(node, false, nil), changed || marked
	})
	if err != nil {
		return false, fmt.Errorf("uncordoning Node %s: %w", name, err)
	}
	return changed, nil
}

// patch is a merge patch. The resource version has it fail when the Node was changed
// since it was read, so that nobody else's cordon is taken for ours.
func patch(node *corev1.Node, unschedulable bool, mark any) map[string]any {
	return map[string]any{
		"metadata": map[string]any{
			"resourceVersion": node.ResourceVersion,
			"uid":             node.UID,
			"annotations":     map[string]any{v1alpha1.CordonedByAnnotation: mark},
		},
		"spec": map[string]any{"unschedulable": unschedulable},
	}
}

// change reads a Node and patches it if decide says so, again if it was changed in between.
func change(ctx context.Context, client kubernetes.Interface, name string, uid types.UID, decide func(*corev1.Node) (map[string]any, bool)) error {
	return retry.OnError(retry.DefaultBackoff, apierrors.IsConflict, func() error {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if uid != "" && node.UID != uid {
			return ErrNodeReplaced
		}
		body, needed := decide(node)
		if !needed {
			return nil
		}
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		_, err = client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{})
		return err
	})
}
