// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package confirm has people confirm the removal of hosts: of exactly those that they were asked
// about, whatever changes between the question and the answer. It imports nothing of this project
// but the API.
package confirm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// digestLength is how much of a digest people have to read.
const digestLength = 8

// digest stands for a set of instances, for people.
func digest(instances []*v1alpha1.WindowsInstance) string {
	return fullDigest(instances)[:digestLength]
}

// fullDigest stands for a set of instances. An instance that was made again is another one.
func fullDigest(instances []*v1alpha1.WindowsInstance) string {
	lines := make([]string, len(instances))
	for i, instance := range instances {
		lines[i] = fmt.Sprintf("%s %s\n", instance.Name, instance.UID)
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:])
}

// Command is the command that confirms the removal of instances of a pool.
func Command(pool types.NamespacedName, instances []*v1alpha1.WindowsInstance) string {
	return fmt.Sprintf("kubectl annotate wnp %s -n %s %s=%s --overwrite", pool.Name, pool.Namespace, v1alpha1.ConfirmRemovalAnnotation, digest(instances))
}

// Given says whether a pool has a confirmation, whatever it is for.
func Given(pool *v1alpha1.WindowsNodePool) bool {
	_, given := pool.Annotations[v1alpha1.ConfirmRemovalAnnotation]
	return given
}

// Refusal tells of a confirmation that was taken off because it is for other hosts than those that
// the question is about.
func Refusal(question string) string {
	return "The annotation " + v1alpha1.ConfirmRemovalAnnotation + " was removed, because its value does not stand for the hosts that wait now. " + question
}

// Covers says whether the confirmation on a pool is for the removal of exactly these instances.
func Covers(pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance) bool {
	return len(instances) > 0 && pool.Annotations[v1alpha1.ConfirmRemovalAnnotation] == digest(instances)
}

// Remaining is what a pool is to remember of a confirmation that is used up: the instances that are to be removed by it and are not recorded
// yet, in the order in which they are. Nil: there are none.
func Remaining(instances []*v1alpha1.WindowsInstance) *v1alpha1.PoolConfirmedRemovals {
	if len(instances) == 0 {
		return nil
	}
	return &v1alpha1.PoolConfirmedRemovals{Count: int32(len(instances)), Digest: fullDigest(instances)}
}

// Covered returns the first of these instances, which are in the order in which they are removed, if they are exactly those that a pool
// remembers by [Remaining]. None: the pool remembers none, or one of them is not there any more, or another one among them.
func Covered(pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance) []*v1alpha1.WindowsInstance {
	c := pool.Status.ConfirmedRemovals
	if c == nil || c.Count < 1 || int(c.Count) > len(instances) || fullDigest(instances[:c.Count]) != c.Digest {
		return nil
	}
	return instances[:c.Count]
}

// Withdraw takes the confirmation off a pool, and says whether there was one. Call it before what
// was confirmed begins. If the pool was changed meanwhile, for example because somebody confirms
// something else, it is a conflict, and the next pass is to judge that.
func Withdraw(ctx context.Context, c client.Client, pool *v1alpha1.WindowsNodePool) (bool, error) {
	if !Given(pool) {
		return false, nil
	}
	before := pool.DeepCopy()
	delete(pool.Annotations, v1alpha1.ConfirmRemovalAnnotation)
	if err := c.Patch(ctx, pool, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("take the confirmation off WindowsNodePool %s: %w", klog.KObj(pool), err)
	}
	return true, nil
}
