// What a few paths answer to GET requests. A pure function of the request, besides the answers themselves.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace ddp {

struct HttpAnswer {
  int status = 200;
  std::string type;  // of the content, such as "application/json"
  std::string content;
};

using HttpAnswers = std::map<std::string, std::function<HttpAnswer()>>;  // by path

class HttpRoutes {
 public:
  explicit HttpRoutes(HttpAnswers answers);
  ~HttpRoutes();

  // The bytes of the answer to a request, of whose lines only the first counts. Calls at most one of the answers.
  std::string answer(const std::string& request) const;

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace ddp
