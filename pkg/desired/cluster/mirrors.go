// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"fmt"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// maxMirrors bounds how many mirrors a warning about a mirror set names.
const maxMirrors = 3

// releaseImages is where OpenShift has its own images. Each cluster without access to the internet mirrors them, mostly to
// another path, and none of them is for Windows.
const releaseImages = "quay.io/openshift-release-dev/"

// elsewhere says of which mirrors of a source hosts do not get what other nodes do: where they look for the images instead.
func elsewhere(source string, mirrors []configv1.ImageMirror) []string {
	if strings.HasPrefix(source+"/", releaseImages) {
		return nil
	}
	var all []string
	for _, m := range mirrors {
		if asked := (document.Mirror{Source: source, Location: string(m)}).Elsewhere(); asked != "" {
			all = append(all, fmt.Sprintf("of %s in %s (not in %s)", source, asked, m))
		}
	}
	return all
}

// warnOfMirrors warns of the mirrors of a set in which hosts do not look for images. It cannot be told to containerd: its file is that
// of a registry, and a mirror in it has a beginning of paths, no other path for each repository.
func (r *reader) warnOfMirrors(kind, name string, elsewhere []string) {
	if len(elsewhere) > 0 {
		r.warnings = append(r.warnings, fmt.Sprintf("%s %s: Windows hosts look for images %s, because containerd appends their whole path to a mirror: copy the images there, and name that as their mirror: oc edit %s %s",
			kind, name, words.Enumerate(elsewhere, maxMirrors), strings.ToLower(kind), name))
	}
}
