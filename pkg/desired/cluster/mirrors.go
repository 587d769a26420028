// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// maxMirrors bounds how many mirrors the warning about them names, and how many sets.
const maxMirrors = 10

// releaseImages is where OpenShift has its own images. Each cluster without access to the internet mirrors them, mostly to
// another path, and none of them is for Windows.
const releaseImages = "quay.io/openshift-release-dev/"

// elsewhere collects the mirrors of which hosts do not get what other nodes do, with where they look for the images instead.
type elsewhere struct {
	mirrors []string
	// sets are what the mirrors are of, as kubectl wants them.
	sets []string
}

// add adds those among the mirrors of a source.
func (e *elsewhere) add(set, source string, mirrors []configv1.ImageMirror) {
	if strings.HasPrefix(source+"/", releaseImages) {
		return
	}
	for _, m := range mirrors {
		asked := (document.Mirror{Source: source, Location: string(m)}).Elsewhere()
		if asked == "" {
			continue
		}
		if text := fmt.Sprintf("of %s in %s (not in %s)", source, asked, m); !slices.Contains(e.mirrors, text) {
			e.mirrors = append(e.mirrors, text)
		}
		if !slices.Contains(e.sets, set) {
			e.sets = append(e.sets, set)
		}
	}
}

// warnings warns of them, all at once. It cannot be told to containerd: its file is that of a registry, and a mirror in it has a
// beginning of paths, no other path for each repository.
func (e *elsewhere) warnings() []string {
	if len(e.mirrors) == 0 {
		return nil
	}
	command := strings.Join(e.sets[:min(len(e.sets), maxMirrors)], " ")
	if more := len(e.sets) - maxMirrors; more > 0 {
		command += fmt.Sprintf(" (%d of %d sets)", maxMirrors, len(e.sets))
	}
	return []string{fmt.Sprintf("Windows hosts look for images %s, because containerd appends their whole path to a mirror: copy the images there, and name that as their mirror: oc edit %s",
		words.Enumerate(e.mirrors, maxMirrors), command)}
}
