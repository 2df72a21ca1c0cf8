package lab

import "time"

// Nginx creates a site, starts an nginx without disks there, and waits until nginx listens. root is the root file
// system that hack/nginx-root creates. text is a configuration that contains "daemon off".
func (l *Lab) Nginx(name, root, text string) (Site, *Server, error) {
	site, err := l.Site(name)
	if err != nil {
		return site, nil, err
	}
	files := Root{Dir: root, Tmpfs: []string{"/tmp"}, Files: map[string]string{"/tmp/nginx.conf": text}}
	server, err := l.Start(name, site, nil, files, "nginx", "-c", "/tmp/nginx.conf", "-e", "stderr")
	if err != nil {
		return site, nil, err
	}
	return site, server, l.Await(site, server, Port)
}

// Workers returns the processor time that each worker process of the server has used so far, by process id.
func (s *Server) Workers() (map[int]time.Duration, error) { return s.Descendants("nginx: worker") }

// Used returns the processor time that processes used between two measurements. sum is the time of all processes
// together, and most is the highest time of a single process.
func Used(before, after map[int]time.Duration) (sum, most time.Duration) {
	for pid, used := range after {
		sum += used - before[pid]
		most = max(most, used-before[pid])
	}
	return sum, most
}
